"""`jumbot export RUN FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from jumbot.cli.arguments import Argument
from jumbot.cli.command import Command
from jumbot.cli.parsing import parse
from jumbot.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Export(Command):
    """Write the model of a run as one file that goes from numbers to probabilities, and runs without jumbot."""

    examples: ClassVar = (
        ("for ONNX Runtime", "jumbot export run model.onnx"),
        ("for torch.export.load", "jumbot export run model.pt2"),
        ("the candidate that `jumbot tune` picked", "jumbot export tuned model.onnx"),
    )
    run: Annotated[Path, Argument("RUN")]
    """Folder of a run, or of a saved model."""
    file: Annotated[Path, Argument("FILE")]
    """model.onnx (ONNX) or model.pt2 (torch.export); an existing one is not overwritten."""


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Export, arguments, "jumbot export")
    if wanted.file.exists():
        raise ArgumentError(f"{wanted.file}: exists already; give another name.")
    from jumbot.adaptation.export import describe
    from jumbot.adaptation.model import load

    model = load(wanted.run)
    model.export(wanted.file)
    said = describe(model)
    print(f"model: {wanted.file}, run with batches of two sizes and found to agree\nin: {said['input']}")
    print(f"out: {said['output']} ({', '.join(model.classes[:5])}{', ...' * (len(model.classes) > 5)})")
    return 0
