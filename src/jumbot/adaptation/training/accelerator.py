"""Devices, processes, precision and trackers: what accelerate does for the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from jumbot.adaptation.runs.folder import RunFolder
from jumbot.adaptation.settings import Training
from jumbot.errors import ArgumentError


def make_accelerator(training: Training, run: RunFolder | None) -> Any:
    """An Accelerator for this machine; under torchrun it joins the group of processes."""
    from accelerate import Accelerator, DistributedDataParallelKwargs
    from accelerate.state import AcceleratorState

    cuda = torch.cuda.is_available()
    if training.device == "cuda" and not cuda:
        raise ArgumentError("device: no CUDA device was found; use 'auto' or 'cpu'.")
    if training.mixed_precision == "fp16" and not cuda:
        raise ArgumentError("mixed_precision: fp16 needs a CUDA device; use 'no'.")
    state = AcceleratorState._shared_state
    if state and state.get("_mixed_precision", "no") != training.mixed_precision:
        AcceleratorState._reset_state()  # one process may train twice, in different precision
    # a discriminator is not used while only the source is trained on; batch norm keeps its own statistics
    parallel = DistributedDataParallelKwargs(find_unused_parameters=True, broadcast_buffers=False)
    folder = str(run.path) if run and training.tensorboard else None
    accelerator: Any = Accelerator(
        cpu=training.device == "cpu" or not cuda, mixed_precision=training.mixed_precision, kwargs_handlers=[parallel],
        log_with="tensorboard" if folder else None, project_dir=folder,
    )  # fmt: skip
    return accelerator


def devices(device: torch.device) -> list[int]:
    """What `torch.random.fork_rng` must save beside the CPU's state."""
    return [device.index or 0] if device.type == "cuda" else []


def seed_step(*numbers: int) -> None:
    """Seed torch from these numbers.

    Not by `torch.manual_seed` where there is no CUDA: it takes notes for one, which cost as much as a small step.
    """
    seed = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a nested record, by names such as terms/source.

    >>> flat({"loss": 1.5, "terms": {"source": 1.0}, "phase": "adapt"})
    {'loss': 1.5, 'terms/source': 1.0}
    """
    out: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            out |= flat(value, f"{prefix}{name}/")
        elif isinstance(value, float):
            out[prefix + name] = value
    return out
