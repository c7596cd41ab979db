"""Which engine answers: its own choice, or one that is forced; and how many threads it has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch

from jumbot.transport._entropic import compiled_sweeps, large_sweeps

ENGINES = ("its own", "large", "torch")


@contextmanager
def engine(name: str, threads: int) -> Iterator[None]:
    """Solve by the engine of that name, wherever it can, on so many threads."""
    before = torch.get_num_threads()
    with ExitStack() as stack:
        if name != "its own":
            stack.enter_context(patch.object(compiled_sweeps, "fits", lambda problem: False))
        if name == "torch":
            stack.enter_context(patch.object(large_sweeps, "fits", lambda problem: False))
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
