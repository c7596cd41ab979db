"""`main`: finds the command, runs it, and turns errors into one line and an exit status.

An error that knows which options would help ends with the command that includes them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import jumbot
from jumbot.cli._help import WIDEST, listed
from jumbot.cli._parsing import UsageError
from jumbot.cli._terminal import say, telling
from jumbot.data._remarks import WOULD_DO
from jumbot.errors import JumbotError, Stopped, missing, suggest

#: Each is a file of this folder, imported when it is used; its function `main` takes the arguments.
COMMANDS = {
    "demo": "adapt the bundled digits with three methods and write a report",
    "adapt": "adapt a classifier from a labelled source to an unlabelled target",
    "tune": "try several methods and settings and pick one without target labels",
    "predict": "predict the classes of new samples with the model of a run",
    "evaluate": "evaluate the model of a run on labelled samples",
    "export": "export the model of a run as one file, ONNX or torch.export",
    "compare": "compare several methods and seeds on the same data",
    "features": "extract a table of features from folders of images",
    "shift": "test whether data have shifted, how far and where; trains nothing",
    "distance": "estimate the minibatch transport distance between two data files",
    "flow": "move the points of one file towards those of another",
    "reproduce": "compute a figure or table of the paper and check its claims",
    "bench": "time jumbot against its peers (in a clone of the repository)",
    "completion": "print a completion script for your shell",
    "doctor": "check which optional features work on this machine",
}

RESUME = dict.fromkeys(("compare", "demo", "tune"), "run the same command again to continue")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    0: done, 1: something failed, 2: bad input, 130: stopped by the user, 141: the reader of the output exited, 143:
    SIGTERM.
    """
    command, *rest = list(sys.argv[1:] if arguments is None else arguments) or [""]
    prog = f"jumbot {command}" if command in COMMANDS else "jumbot"
    try:
        if command in ("-h", "--help"):
            print(_help())
        elif command == "--version":
            print(f"jumbot {jumbot.__version__}")
        elif command not in COMMANDS:
            what = f"{command!r} is not a command;" if command else "which command?"
            raise UsageError(f"{what} {suggest(command, COMMANDS)}")
        else:
            with _terminable(), telling():
                status: int = import_module(f"jumbot.cli._{command}").main(rest)
            sys.stdout.flush()
            return status
        return 0
    except KeyboardInterrupt as stop:
        how = [str(stop), RESUME.get(command, "")]
        say("; ".join([f"{prog}: stopped", *filter(None, how)]), sys.stderr)
        return 128 + getattr(stop, "signal", signal.SIGINT)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell reports it
    except UsageError as error:
        message = str(error).removesuffix(".")
        page = " ".join(filter(None, [prog, error.page, "--help"]))
        say(f"{prog}: {message}{'' if message.endswith('?') else ';'} see '{page}'", sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        say(f"{prog}: {missing(error, 'this', 'adapt')}", sys.stderr)
        return 2
    except (JumbotError, OSError) as error:
        say(f"{prog}: {with_command(error, command, rest)}", sys.stderr)
        return 2


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does: incomplete files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped("", number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _help() -> str:
    width = min(shutil.get_terminal_size().columns, WIDEST)
    what = "Adapt a classifier to data without labels, by optimal transport between minibatches."
    more = "'jumbot COMMAND --help' explains a command; 'jumbot --version' prints the version."
    return "\n".join(
        [
            "usage: jumbot COMMAND [ARGUMENTS]",
            "",
            *textwrap.wrap(what, width),
            "",
            "commands:",
            *listed(COMMANDS, width),
            "",
            *textwrap.wrap(more, width),
        ]
    )


def with_command(error: BaseException, command: str, arguments: Sequence[str]) -> str:
    """The text to print for an error.

    >>> from jumbot.errors import ArgumentError
    >>> error = ArgumentError("column 'my notes' contains free text.", remedy={"drop": ("my notes",)})
    >>> print(with_command(error, "adapt", ["a.csv", "b.csv", "--drop", "age", "--out", "run"]))
    column 'my notes' contains free text.
    Try: jumbot adapt a.csv b.csv --drop age 'my notes' --out run
    """
    message = str(error)
    remedy: Mapping[str, Any] = getattr(error, "remedy", {})
    if not remedy:
        return message
    words = shlex.join(["jumbot", command, *_changed(list(arguments), remedy)])
    return f"{message.partition(f'{chr(10)}{WOULD_DO}')[0]}\n{WOULD_DO}{words}"


def _changed(words: list[str], remedy: Mapping[str, Any]) -> list[str]:
    """The command line with the options of a remedy: names are added to lists, other values are replaced."""
    for name, value in remedy.items():
        flag = f"--{name.replace('_', '-')}"
        several = value if isinstance(value, tuple) else (value,)
        found = next((place for place, word in enumerate(words) if word == flag or word.startswith(f"{flag}=")), None)
        if found is None:
            words = [*words, flag, *map(str, several)]
            continue
        given = words[found].partition("=")[2]
        own = [given] if given else []
        end = found + 1
        while not given and end < len(words) and not words[end].startswith("-"):
            own.append(words[end])
            end += 1
        kept = own if isinstance(value, tuple) else []
        words = [*words[:found], flag, *kept, *(str(one) for one in several if str(one) not in kept), *words[end:]]
    return words
