"""The help page of a command: what it does, examples, the main options, and below them the others.

The boxes are tyro's, from the dataclasses and the strings below their fields.

Commands: the examples on the help page, and which options come first.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import os
import pydoc
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TextIO

from jumbot._base.options import Options
from jumbot._settings.places import model_folder
from jumbot.cli._arguments import Argument, Entry, annotated, entries, flag

if TYPE_CHECKING:
    from jumbot.adaptation._model import Model


def field_docs(cls: type) -> dict[str, str]:
    """Docstrings of the fields, also those of base classes; None is written as none, as users type it.

    >>> from jumbot._settings.training import Training
    >>> field_docs(Training)["steps"][:39]
    'Steps of adaptation, instead of epochs;'
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        found |= _of_module(base.__module__).get(base.__qualname__, {})
    return found


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (OSError, TypeError, KeyError):  # a class made at a prompt has no file
        return {}
    return {node.name: _of_body(node.body) for node in tree.body if isinstance(node, ast.ClassDef)}


def _of_body(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for field, doc in pairwise(body):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text).replace("\n", " ").replace("None", "none")
    return found


WIDEST = 100  # longer lines are tiring to read
EMPTY = re.compile(r"(\x1b\[[0-9;]*m|[│|\s])+")  # tyro leaves one where a text just fits


@dataclass(frozen=True)
class Group:
    """Options that a command takes in addition to its own, with a title and the help on their defaults."""

    title: str
    cls: type[Options]
    defaults: Mapping[str, str]


def show_help(tyro: Any, command: type[Command], groups: Sequence[Group]) -> None:
    """Print the page, through the user's pager where it is longer than the terminal."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    words = " ".join((command.__doc__ or "").split())
    parts = [_usage(command), *textwrap.wrap(words, width), ""]
    parts += ["examples:", *(f"  # {what}\n  {typed}" for what, typed in command.examples), ""]
    parts += _boxes(tyro, command, groups)
    parts += listed(command.listed, width)
    _show("\n".join(parts) + "\n")


def listed(names: Mapping[str, str], width: int) -> list[str]:
    """Lines with a name and its description.

    >>> listed({"adapt": "learn here, predict there"}, 24)
    ['  adapt  learn here,', '         predict there']
    """
    indent = max(map(len, names), default=0) + 4
    return [
        line
        for name, what in names.items()
        for line in textwrap.wrap(what, width, initial_indent=f"  {name}".ljust(indent), subsequent_indent=" " * indent)
    ]


def shown_default(value: Any) -> str:
    """A default as it would be typed; empty if the description says what happens without it."""
    if value is None or value is False or value == ():
        return ""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "yes" if value is True else str(value)


def _usage(command: type[Command]) -> str:
    known = entries(command)
    places = [entry.metavar for entry in known.values() if isinstance(entry.marker, Argument)]
    needed = [f"{flag(n)} {e.metavar}" for n, e in known.items() if e.required and not isinstance(e.marker, Argument)]
    options = ["[OPTIONS]"] * (command.trains or len(known) > len(places) + len(needed))
    return " ".join(["usage: jumbot", command.__name__.lower(), *places, *needed, *options]) + "\n"


def _boxes(tyro: Any, command: type[Command], groups: Sequence[Group]) -> list[str]:
    """Positional arguments and the main options in the first boxes, then the other options, then the groups."""
    own = dict(_own(tyro, command))
    others: dict[str, dict[str, tuple[Any, Any]]] = {}
    seen = set(own)  # methods share options: the first that has one shows it
    for group in groups:
        docs = field_docs(group.cls)
        others[group.title] = {
            name: _shown(tyro, entry, docs.get(name, ""), group.defaults.get(name, ""))
            for name, entry in entries(group.cls).items()
            if name not in seen
        }
        seen |= set(others[group.title])
    known = entries(command)
    matter = [name for name in own if isinstance(known[name].marker, Argument)] + list(command.matter)
    everything = own | {name: field for fields in others.values() for name, field in fields.items()}
    first = [(name, *everything[name]) for name in matter if name in everything]
    parts = {"further": (own, None)} | {g.title: (others[g.title], g.cls.__doc__) for g in groups}
    for title, (fields, doc) in parts.items():
        rest = [(name, *field) for name, field in fields.items() if name not in matter]
        if rest:
            part = _made(title.replace("-", "_"), rest, doc)
            first.append((part.__name__, part, dataclasses.field(default_factory=part)))
    whole = _made("Arguments", first, None)
    output = _Captured(sys.stdout)
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        tyro.cli(whole, args=["--help"], prog="", description="", config=(tyro.conf.OmitArgPrefixes,))
    _, _, boxes = output.getvalue().partition("\n")  # without tyro's usage
    return [line.rstrip() for line in boxes.strip("\n").splitlines() if not EMPTY.fullmatch(line)]


def _own(tyro: Any, command: type[Command]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    docs = field_docs(command)
    for name, entry in entries(command).items():
        if entry.required:
            yield name, (annotated(tyro, entry, docs.get(name, ""), "(required)"), dataclasses.field())
            continue
        kind, default = _shown(tyro, entry, docs.get(name, ""), shown_default(entry.field.default))
        if entry.is_flag:  # an option that is off needs no opposite
            kind = tyro.conf.FlagCreatePairsOff[kind]
        yield name, (kind, default)


def _shown(tyro: Any, entry: Entry, doc: str, default: str) -> tuple[Any, Any]:
    """Type and default of an option that need not be given; the help alone says what happens then."""
    kind = annotated(tyro, entry, doc, f"(default: {default})" if default else "")
    return kind, dataclasses.field(default=False if entry.is_flag else None)


def _made(name: str, fields: list[Any], doc: str | None) -> Any:
    return dataclasses.make_dataclass(name, fields, kw_only=True, namespace={"__doc__": doc or ""})


class _Captured(io.StringIO):
    """What tyro prints, in the colours and characters that the terminal supports."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self.terminal = terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return (getattr(self.terminal, "encoding", None) or "utf-8").lower()  # as tyro spells it

    def isatty(self) -> bool:
        return self.terminal.isatty()


def _show(text: str) -> None:
    if sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        os.environ.setdefault("LESS", "FRX")  # as git: keep colours, and leave the page on the screen
        pydoc.pager(text)
    else:
        print(text, end="")


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
