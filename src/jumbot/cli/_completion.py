"""`jumbot completion SHELL`: a completion script, generated from the options."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, ClassVar, Literal

from jumbot._base.options import Options
from jumbot.adaptation._config import PARTS
from jumbot.cli._app import COMMANDS
from jumbot.cli._arguments import Argument, Entry, Option, entries, flag
from jumbot.cli._help import Command, command_class, field_docs
from jumbot.cli._parsing import parse
from jumbot.cli._run_options import every_option

ZSH = """(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
autoload -Uz bashcompinit && bashcompinit
"""


@dataclass(frozen=True, kw_only=True)
class Completion(Command):
    """Print a script for your shell that completes commands, options, values and file names."""

    examples: ClassVar = (
        ("bash, in this shell; put it into ~/.bashrc to keep it", 'eval "$(jumbot completion bash)"'),
        ("zsh, in ~/.zshrc", "source <(jumbot completion zsh)"),
        ("fish, permanently", "jumbot completion fish > ~/.config/fish/completions/jumbot.fish"),
    )
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument("SHELL")]
    """bash, zsh or fish."""


def main(arguments: Sequence[str]) -> int:
    shell = parse(Completion, arguments).shell
    print(fish() if shell == "fish" else (ZSH if shell == "zsh" else "") + bash(), end="")
    return 0


def classes(command: str) -> list[type[Options]]:
    """Those that have the options of a command."""
    cls = command_class(command)
    return [cls, *((PARTS.values() if cls.chooses else every_option()) if cls.trains else ())]


def options(command: str) -> dict[str, Entry]:
    """Every option and argument of a command by name, those of a run too where it takes them."""
    return entries(*classes(command))


def bash() -> str:
    """The script, which zsh can read too.

    Options that several commands have in common are written once: a case may name several of them.
    """
    flags: dict[str, list[str]] = defaultdict(list)
    values: dict[str, list[str]] = defaultdict(list)
    places: dict[str, list[str]] = defaultdict(list)
    for command in COMMANDS:
        known = options(command)
        flags[" ".join(sorted([*_flags(known), "--help"]))].append(command)
        for name, entry in known.items():
            if isinstance(entry.marker, Argument):
                places[" ".join(entry.choices)].append(command)
            for word in (flag(name), *_aliases(entry)):
                values[" ".join(entry.choices)].append(f"{command}:{word}:{'*' if entry.several else '0'}")
    parts = {
        "COMMANDS": " ".join(COMMANDS),
        "OPTIONS": _cases(flags),
        "VALUES": _cases(values),
        "PLACES": _cases(places),
    }
    script = files("jumbot.cli").joinpath("completion.bash").read_text(encoding="utf-8").partition("\n")[2]
    return re.sub("|".join(parts), lambda found: parts[found[0]], script)


def fish() -> str:
    """The script, with a description of each command and option."""
    lines = [
        f"complete -c jumbot -f -n __fish_use_subcommand -a {name} -d {shlex.quote(what)}"
        for name, what in COMMANDS.items()
    ]
    for command in COMMANDS:
        docs: dict[str, str] = {}
        for cls in reversed(classes(command)):
            docs |= field_docs(cls)
        for name, entry in options(command).items():
            start = f"complete -c jumbot -n '__fish_seen_subcommand_from {command}'"
            choices = f" -f -a {shlex.quote(' '.join(entry.choices))}" if entry.choices else ""
            if isinstance(entry.marker, Argument):
                lines += [f"{start}{choices}"] if choices else []
                continue
            summary = shlex.quote(re.split(r"[.;:] |\.$", docs.get(name, ""))[0])
            words = " ".join(f"-l {word[2:]}" for word in (flag(name), *_aliases(entry)))
            lines.append(f"{start} {words}{'' if entry.is_flag else ' -r'}{choices} -d {summary}")
    return "\n".join(lines) + "\n"


def _flags(known: dict[str, Entry]) -> Iterator[str]:
    for name, entry in known.items():
        if isinstance(entry.marker, Option):
            yield flag(name)
            yield from _aliases(entry)


def _aliases(entry: Entry) -> tuple[str, ...]:
    return entry.marker.aliases if isinstance(entry.marker, Option) else ()


def _cases(patterns: dict[str, list[str]]) -> str:
    """Lines of a case: the words that each pattern represents; patterns without words are left out."""
    return "\n".join(f'            {"|".join(found)}) words="{words}" ;;' for words, found in patterns.items() if words)
