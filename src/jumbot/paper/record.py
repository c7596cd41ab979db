"""What an item leaves behind: pictures, and a JSON record with the paper's claims, measured."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot.adaptation.runs.provenance import stamp
from jumbot.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "Fatras, Séjourné, Courty, Flamary: Unbalanced minibatch optimal transport (ICML 2021)"


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, the numbers that bear on it, and whether they agree."""

    statement: str
    measured: Mapping[str, Any]
    holds: bool


@dataclass
class Record:
    """Collects one item; `save` writes `NAME.json` and returns what it wrote."""

    name: str
    shows: str
    settings: Mapping[str, Any]
    seed: int
    quick: bool
    command: str | None = None
    inputs: Mapping[str, Any] | str = "drawn from the seed"
    runs: Sequence[Path] = ()
    """Folders of the runs that it rests on, if any."""
    claims: list[Claim] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def claim(self, statement: str, holds: bool, **measured: Any) -> None:
        self.claims.append(Claim(statement, measured, bool(holds)))

    def picture(self, folder: Path, figure: Figure, suffix: str = "", few_colours: bool = False) -> None:
        """Write the figure as PNG and PDF.

        `few_colours` keeps 64 of them in the PNG: a quarter of the size, for pictures of very many points.
        """
        name = self.name + suffix
        figure.savefig(folder / f"{name}.png", dpi=110)
        if few_colours:
            _reduce_colours(folder / f"{name}.png")
        # without its date, the same run gives the same file
        figure.savefig(folder / f"{name}.pdf", dpi=110, metadata={"CreationDate": None})
        self.files += [f"{name}.png", f"{name}.pdf"]

    @property
    def _command(self) -> str:
        return self.command or f"jumbot reproduce {self.name} --seed {self.seed}{' --quick' * self.quick}"

    def save(self, folder: Path) -> dict[str, Any]:
        record = plain(
            {
                "item": self.name,
                "shows": self.shows,
                "paper": PAPER,
                **stamp(self._command, self.runs),
                "quick": self.quick,
                "seed": self.seed,
                "settings": self.settings,
                "inputs": self.inputs,
                "seconds": round(time.perf_counter() - self.started, 1),
                "claims": [asdict(claim) for claim in self.claims],
                "files": [*self.files, f"{self.name}.json"],
                "data": self.data,
            }
        )
        write_text(folder / f"{self.name}.json", json.dumps(record, indent=1, allow_nan=False) + "\n")
        return record


def _reduce_colours(path: Path) -> None:
    from PIL import Image  # matplotlib depends on it

    with Image.open(path) as image:
        reduced = image.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    reduced.save(path, optimize=True)


def plain(value: Any) -> Any:
    """Only what JSON knows; floats to six digits, infinite ones as text.

    >>> plain({"tau": math.inf, "m": (2, 10), "mass": np.float64(1 / 3)})
    {'tau': 'inf', 'm': [2, 10], 'mass': 0.333333}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else str(float(value))
    return value
