"""What a worker process of `CoupledLoader` does."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import torch

from jumbot.coupling._couple import couple


def start_worker() -> None:
    """One thread, so that the training keeps the others; Ctrl-C is for the process that trains."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def solve_job(data: tuple[Any, Any, Any], settings: dict[str, Any], draw: int | None, seed: Any) -> Any:
    """Rows i and j and the growth of the pairs, as arrays."""
    x0, x1, conditions = data
    *_, i, j, growth = couple(
        x0, x1, **settings, conditions=conditions, draw=draw, generator=np.random.default_rng(seed),
        return_index=True, return_mass=True,
    )  # fmt: skip
    return i, j, np.array(growth)
