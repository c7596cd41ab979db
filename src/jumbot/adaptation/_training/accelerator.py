"""Devices, processes, precision and trackers, through accelerate."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
import torch

from jumbot._base.distributed import leave_at_exit
from jumbot._base.schema import to_builtins
from jumbot._settings.places import CONFIG
from jumbot._settings.training import Training
from jumbot.adaptation._runs.folder import RunFolder, read_config
from jumbot.errors import ArgumentError, JumbotError, MissingPackageError, need

T = TypeVar("T")


def make_accelerator(training: Training, run: RunFolder | None) -> Any:
    """An Accelerator for this machine; under torchrun it joins the group of processes."""
    from accelerate import Accelerator, DistributedDataParallelKwargs
    from accelerate.state import AcceleratorState, PartialState

    check_able(training)
    device = device_of(training)
    if device.startswith("cuda:"):
        torch.cuda.set_device(device)
    # one process may train twice, with another precision or device, and accelerate keeps its first state
    state, place = AcceleratorState._shared_state, PartialState._shared_state
    moved = bool(place) and place["num_processes"] == 1 and place["device"].type != device.partition(":")[0]
    if moved or (state and state.get("_mixed_precision", "no") != training.mixed_precision):
        AcceleratorState._reset_state(reset_partial_state=moved)
    # a discriminator is not used while only the source is trained on; batch norm keeps its own statistics
    parallel = DistributedDataParallelKwargs(find_unused_parameters=True, broadcast_buffers=False)
    trackers = list(training.tracked_by) if run else []
    leave_at_exit()
    accelerator: Any = Accelerator(
        cpu=device == "cpu",
        mixed_precision=training.mixed_precision,
        kwargs_handlers=[parallel],
        log_with=trackers or None,
        project_dir=str(run.path) if run and trackers else None,
    )
    return accelerator


def check_able(training: Training, reports: bool = False) -> None:
    """Refuse a device that this machine lacks, and packages that are not installed."""
    kind, _, number = training.device.partition(":")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ArgumentError(f"device: got {training.device!r}, but no CUDA device was found; use 'auto' or 'cpu'.")
    if number and int(number) >= torch.cuda.device_count():
        raise ArgumentError(f"device: got {training.device!r}, but there are only {torch.cuda.device_count()} devices.")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ArgumentError("device: got 'mps', but no Metal device was found; use 'auto' or 'cpu'.")
    if training.mixed_precision == "fp16" and not device_of(training).startswith("cuda"):
        raise ArgumentError("mixed_precision: 'fp16' needs a CUDA device; use 'no' or 'bf16'.")
    for module in ("accelerate", "safetensors", "sklearn"):
        need(module, "training", "adapt")
    for name in training.tracked_by:
        if name == "tensorboard":
            need(name, "the tracker tensorboard", "tensorboard")
        elif find_spec(name) is None:
            raise MissingPackageError(
                f"trackers: {name!r} needs the package {name}, which is not installed; install it with: pip install "
                f"{name}."
            )
    if reports:
        for module in ("matplotlib", "jinja2"):
            need(module, "the report of a run", "adapt")


def begin_trackers(accelerator: Any, training: Training, run: RunFolder | None) -> None:
    """Open the trackers and send them the settings of the run."""
    if not run or not training.tracked_by:
        return
    settings = {}
    if (run.path / CONFIG).exists():
        config = to_builtins(read_config(run.path))
        parts = {name: config[name] or {} for name in ("method", "training", "network_options", "inputs")}
        settings = {f"{part}.{key}": _trackable(values[key]) for part, values in parts.items() for key in values}
    only = training.tracked_by == ("tensorboard",)  # its project is the name of a folder inside the run folder
    accelerator.init_trackers("tensorboard" if only else "jumbot", config=settings or None)


def _trackable(value: Any) -> int | float | str | bool:
    return value if isinstance(value, int | float | str | bool) else str(value)


def device_of(training: Training) -> str:
    """The device of this process; under torchrun each has its own CUDA device."""
    if training.device == "auto":
        return "cpu" if not torch.cuda.is_available() else f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    if training.device == "cuda":
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return training.device


def decided_by_first(accelerator: Any, action: Callable[[], T]) -> T:
    """The result of `action` in the first process, in all of them; an error of the first is raised in all."""
    outcome: list[Any] = [None, None]
    if accelerator.is_main_process:
        try:
            outcome[0] = action()
        except JumbotError as error:
            outcome[1] = error
    if accelerator.num_processes > 1:
        from accelerate.utils import broadcast_object_list

        broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    found: T = outcome[0]
    return found


def devices(device: torch.device) -> list[int]:
    """What `torch.random.fork_rng` must save in addition to the CPU's state."""
    if device.type != "cuda":
        return []
    return [torch.cuda.current_device() if device.index is None else device.index]


def seed_step(*numbers: int) -> None:
    """Seed torch from these numbers.

    Without a device not by `torch.manual_seed`, whose bookkeeping for devices takes as long as a small step.
    """
    seed = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1
    if torch.cuda.is_available() or torch.backends.mps.is_available():
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


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # names of glibc's mallopt


def keep_freed_memory() -> bool:
    """Make the C library keep memory between steps; return whether it does.

    glibc maps blocks of more than 32 MB again at each use, and the system clears them page by page.  The activations of
    500 digits are larger: without this, a quarter of a step on the CPU is spent on clearing them.  It affects the whole
    process, so only the commands that train call it.
    """
    mallopt = _glibc("mallopt")
    if mallopt is None:
        return False
    return all([mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, 2**31 - 1), mallopt(_TOP_PAD, 1 << 26)])


def give_back_memory() -> None:
    """Return freed memory to the system, between stages that need blocks of different sizes."""
    if (trim := _glibc("malloc_trim")) is not None:
        trim(0)


def _glibc(name: str) -> Any:
    """A function of glibc; None with another C library."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return getattr(ctypes.CDLL("libc.so.6"), name)
    except (OSError, AttributeError):
        return None
