"""Minibatches shared among the processes of torch.distributed: each takes its part, then one all-reduce."""

from __future__ import annotations

import atexit
import gc
import os
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor


def group() -> tuple[int, int]:
    """(rank, number of processes); joins the group that torchrun announces in the environment, once."""
    if not dist.is_available():
        return 0, 1
    if not dist.is_initialized():
        if not _announced():
            return 0, 1
        leave_at_exit()
        dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def _announced() -> bool:
    """Whether this is one of several processes that torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ and "MASTER_ADDR" in os.environ


@cache
def leave_at_exit() -> None:
    """Leave the gloo group that is about to be joined before the interpreter ends; a group of the user stays.

    Its threads release tensors some time after a collective has returned, and need Python's lock for that: a late
    thread that finds the interpreter shutting down aborts the process.  They are joined only when nothing references
    the group.
    """
    if dist.is_available() and not dist.is_initialized() and _announced():
        import torch.distributed.nn.functional  # noqa: F401  defaults of its functions hold a group that is there first

        atexit.register(_leave)


def _leave() -> None:
    if dist.is_initialized() and dist.get_backend() == "gloo":
        gc.collect()  # an unused DistributedDataParallel may still reference it
        dist.destroy_process_group()


def share(first: int, last: int) -> tuple[int, int]:
    """This process's part of the minibatches first <= i < last."""
    rank, world = group()
    count = last - first
    return first + rank * count // world, first + (rank + 1) * count // world


def sum_over_processes(array: np.ndarray) -> np.ndarray:
    """The sum over all processes, the same on each."""
    if group()[1] == 1:
        return array
    tensor = torch.from_numpy(array).to(_device())
    dist.all_reduce(tensor)
    return tensor.cpu().numpy()


def from_first_process(array: np.ndarray) -> np.ndarray:
    """The array of the process of rank 0."""
    tensor = torch.from_numpy(array).to(_device())
    dist.broadcast(tensor, 0)
    return tensor.cpu().numpy()


def _device() -> str:
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


def gather(value: Any) -> list[Any]:
    """`value` of every process, in the order of the ranks."""
    world = group()[1]
    if world == 1:
        return [value]
    out: list[Any] = [None] * world
    dist.all_gather_object(out, value)
    return out


def mean_over_processes(x: Tensor) -> Tensor:
    """The mean over all processes, the same on each."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return x
    total = x.clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def gather_rows(x: Tensor) -> Tensor:
    """The rows of every process, in the order of the ranks; gradients flow back to the process that they came from.

    Every process then computes the same loss, so the gradient that comes back to each is summed over all of them,
    and averaging over processes, as DistributedDataParallel does, gives the gradient of that one loss.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return x
    if x.is_floating_point():
        from torch.distributed.nn.functional import all_gather

        return torch.cat(all_gather(x.contiguous()))
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


def own_rows(count: int, joined: bool = True) -> slice:
    """Where the `count` rows of this process stand among the joined ones of `gather_rows`."""
    rank = dist.get_rank() if joined and dist.is_initialized() else 0
    return slice(rank * count, (rank + 1) * count)
