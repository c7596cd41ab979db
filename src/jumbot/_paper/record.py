"""Records of the items of the paper, and the two clusters that figures 1 and 3 share."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot._base.files import write_text
from jumbot.adaptation._runs.provenance import stamp

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
        record = rounded(
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


def rounded(value: Any) -> Any:
    """Only what JSON knows; floats to six digits, infinite ones as text.

    >>> rounded({"tau": math.inf, "m": (2, 10), "mass": np.float64(1 / 3)})
    {'tau': 'inf', 'm': [2, 10], 'mass': 0.333333}
    """
    if isinstance(value, Mapping):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return rounded(value.tolist())
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else str(float(value))
    return value


@dataclass(frozen=True)
class Points:
    """Source and target points `(10, 2)` and the cluster, 0 or 1, that each belongs to."""

    source: np.ndarray
    target: np.ndarray
    source_cluster: np.ndarray
    target_cluster: np.ndarray

    @property
    def cost(self) -> np.ndarray:
        """|x_i - y_j|^2."""
        return ((self.source[:, None] - self.target[None]) ** 2).sum(-1)

    @property
    def clusters(self) -> tuple[np.ndarray, np.ndarray]:
        return self.source_cluster, self.target_cluster

    @property
    def between(self) -> np.ndarray:
        """True where source i and target j lie in different clusters."""
        return self.source_cluster[:, None] != self.target_cluster[None]


def make_points(seed: int = 0, target: tuple[int, int] = (3, 7)) -> Points:
    """5 + 5 sources around (0, 1) and (0, -1), as many targets as said around (1, 1) and (1, -1); deviation 0.22.

    >>> make_points().cost.shape
    (10, 10)
    """
    random = np.random.default_rng(seed)
    source_cluster, target_cluster = np.repeat([0, 1], [5, 5]), np.repeat([0, 1], target)

    def scatter(x: float, cluster: np.ndarray) -> np.ndarray:
        centres = np.stack([np.full(len(cluster), x), 1.0 - 2.0 * cluster], axis=-1)
        return centres + 0.22 * random.standard_normal(centres.shape)

    return Points(scatter(0.0, source_cluster), scatter(1.0, target_cluster), source_cluster, target_cluster)
