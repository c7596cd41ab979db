"""Commands: the examples on the help page, and which options come first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from jumbot._base.options import Options
from jumbot._settings.places import model_folder
from jumbot.cli._arguments import Argument

if TYPE_CHECKING:
    from jumbot.adaptation._model import Model


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Base of the dataclass of every command: the first line of its docstring says what the command does."""

    examples: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Examples: the purpose and the command line."""
    matter: ClassVar[tuple[str, ...]] = ()
    """The options that most people need, its own or those of a run, in the order of the page; the others follow."""
    trains: ClassVar[bool] = False
    """It also takes the options of a run: method, training, network and inputs."""
    chooses: ClassVar[bool] = False
    """It chooses the method itself, so it takes only the training, network and input options of a run."""
    listed: ClassVar[Mapping[str, str]] = {}
    """Possible values of an argument and what each is, printed last."""


@dataclass(frozen=True, kw_only=True)
class RunCommand(Command):
    """Base of the commands that use the model of a run."""

    run: Annotated[Path, Argument("RUN")]
    """Folder of a run, or of a saved model."""

    def load(self) -> Model:
        """The model; a folder without one is refused before anything heavy is imported."""
        model_folder(self.run)
        from jumbot.adaptation._model import load

        return load(self.run)


def command_class(name: str) -> type[Command]:
    """The dataclass of a command, from the file of its name.

    >>> command_class("predict").__name__
    'Predict'
    """
    found: type[Command] = getattr(import_module(f"jumbot.cli._{name}"), name.capitalize())
    return found
