"""What the harness asks of a peer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.certify import Potentials
from benchmarks.regimes import Regime


def iteration_ladder(first: int = 2, last: int = 60_000, step: float = 1.1) -> list[int]:
    """Iteration counts from `first` to `last`, each about 10 % above the one before."""
    count = math.ceil(math.log(last / first) / math.log(step))
    return sorted({round(first * step**k) for k in range(count + 1)})


@dataclass
class Peer(ABC):
    """A solver of somebody else, in one configuration; `tuned`: with options beyond tolerance and dtype."""

    regime: Regime
    name: str
    tuned: bool = False
    stride: int = 7  # settings that calibration steps over at first: 1.1^7 is a doubling of the iterations

    @property
    @abstractmethod
    def settings(self) -> Sequence[Any]:
        """Stopping rules from loose to tight."""

    @abstractmethod
    def prepare(self, cost: np.ndarray) -> Any:
        """The problem in the peer's own types."""

    @abstractmethod
    def call(self, data: Any, setting: Any) -> Any:
        """Solve and materialise the plan; all of this is timed."""

    @abstractmethod
    def answer(self, data: Any, setting: Any) -> tuple[np.ndarray, Potentials | None]:
        """Plan and potentials of the same call; None where the peer returns no potentials."""
