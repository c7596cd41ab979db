"""`jumbot bench`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jumbot.cli._help import Command
from jumbot.cli._parsing import parse
from jumbot.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Time jumbot against its peers, in a clone of the repository."""

    examples: ClassVar = (("as recorded: eight minutes", "jumbot bench"), ("a minute or two", "jumbot bench --quick"))
    matter: ClassVar = ("quick",)
    quick: bool = False
    """Run fewer rounds."""


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Bench, arguments)
    if not Path("benchmarks/__main__.py").exists():
        raise ArgumentError("there are no benchmarks here; run this in a clone of the repository, after make setup.")
    command = [sys.executable, "-m", "benchmarks", *(["--quick"] if wanted.quick else [])]
    return subprocess.run(command, check=False).returncode
