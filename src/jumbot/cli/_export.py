"""`jumbot export RUN FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from jumbot.cli._arguments import Argument
from jumbot.cli._help import RunCommand
from jumbot.cli._parsing import parse
from jumbot.cli._terminal import say
from jumbot.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Export(RunCommand):
    """Export the model of a run as one file that maps inputs to probabilities and runs without jumbot."""

    examples: ClassVar = (
        ("for ONNX Runtime", "jumbot export run model.onnx"),
        ("for torch.export.load", "jumbot export run model.pt2"),
        ("the candidate that `jumbot tune` chose", "jumbot export tuned model.onnx"),
    )
    file: Annotated[Path, Argument("FILE")]
    """model.onnx (ONNX) or model.pt2 (torch.export); an existing one is not overwritten."""


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Export, arguments)
    if wanted.file.exists():
        raise ArgumentError(f"{wanted.file}: already exists; choose another name.")
    model = wanted.load()
    from jumbot.adaptation._export import describe
    from jumbot.data._column_kinds import few

    model.export(wanted.file)
    description = describe(model)
    say(f"model: {wanted.file}, checked with batches of two sizes\nin: {description['input']}")
    say(f"out: {description['output']} ({few(model.classes, 5)})")
    return 0
