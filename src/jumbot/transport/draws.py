"""Pairs drawn from a plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError
from jumbot.transport.checks import check_whole

Generator = torch.Generator | np.random.Generator


def draw_pairs(plan: Tensor, count: int, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Rows and columns `(B, count)`, each pair drawn independently with probability P_ij / sum(P).

    `plan` is `(B, n, m)`.  Without a generator the operating system gives the seed; the global ones are not touched.

    >>> rows, columns = draw_pairs(torch.eye(3)[None], 100, torch.Generator().manual_seed(0))
    >>> bool((rows == columns).all()), rows.unique().tolist()
    (True, [0, 1, 2])
    """
    count, generator = check_whole("n", count, least=1), check_generator(generator)
    cumulative = plan.detach().flatten(1).cumsum(-1, dtype=torch.float64)
    total = cumulative[:, -1:]
    if not bool((total > 0).all()):
        empty = int(torch.argmin(total))
        where = f"problem {empty} of {len(plan)}" if len(plan) > 1 else "it"
        raise ArgumentError(f"plan: {where} has no mass, so there is no pair to draw; raise tau.")
    at = uniform((len(plan), count), generator).to(plan.device) * total
    # u < 1, but u * total can round up to total, above which there is no cell
    at = torch.minimum(at, torch.nextafter(total, torch.zeros_like(total)))
    cell = torch.searchsorted(cumulative, at, right=True)
    width = plan.shape[-1]
    return cell // width, cell % width


def check_generator(generator: Any) -> Generator:
    """The generator itself, or a new one from the operating system's entropy."""
    if generator is None:
        return np.random.default_rng()
    if not isinstance(generator, Generator):
        raise ArgumentError(
            f"generator: {type(generator).__name__} came in; pass a torch.Generator or a numpy.random.Generator, "
            "e.g. torch.Generator().manual_seed(0)."
        )
    return generator


def uniform(shape: tuple[int, int], generator: Generator) -> Tensor:
    """Numbers from [0, 1) in float64."""
    if isinstance(generator, torch.Generator):
        return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.from_numpy(generator.random(shape))
