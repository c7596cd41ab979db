"""Minibatches of all processes joined into one, with gradients."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


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
