"""Pairs of cost +inf, which are never matched, and the rows and columns that have no other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError
from jumbot.transport.marginal import Marginal

#: The cost of a blocked pair in the sweeps: beyond any potential, so that e^{(f+g-C)/epsilon} is zero.
FORBIDDEN = 1e60
_BEYOND = 1e100


@dataclass(frozen=True)
class Closed:
    """Rows and columns of which every pair is blocked: their mass is lost whatever the others do.

    In the problem that is solved they have no weight; `a` and `b` are the weights as given.
    """

    rows: Tensor
    columns: Tensor
    a: Tensor
    b: Tensor


def block(
    cost: Tensor, modest: bool, epsilon: float, source: Marginal, target: Marginal
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Replace +inf by a price that no plan pays; refuse NaN and -inf, of which `modest` costs hold none.

    At prices on both sides a cost beyond 1e100 times all of them is as good as +inf: e^-1e100 is zero.
    """
    if modest:
        return cost, None
    if bool(cost.isnan().any()):
        raise ArgumentError(f"cost: holds {int(cost.isnan().sum())} NaN; clean the points it was made from.")
    if bool(cost.isneginf().any()):
        raise ArgumentError("cost: holds -inf; costs may be +inf (never matched) but not -inf.")
    blocked = cost.isposinf()
    if epsilon > 0:
        if not (source.hard or target.hard):
            blocked = blocked | (cost > _BEYOND * max(epsilon, source.tau, target.tau))
        elif (reach := float(cost.abs().masked_fill(blocked, 0).max())) > _BEYOND * epsilon:
            raise ArgumentError(
                f"cost: {reach:g} is too far beyond epsilon = {epsilon:g} where a marginal is constrained; "
                "raise epsilon, or use epsilon=0."
            )
    if not bool(blocked.any()):
        return cost, None
    if source.hard and target.hard:
        raise ArgumentError(
            "cost: holds +inf while both marginals are constrained, so a plan may not exist; "
            "+inf means 'never matched' where tau is finite. Use a large finite cost instead."
        )
    if epsilon > 0:
        return cost.double().masked_fill(blocked, FORBIDDEN), blocked
    for side, axis, name in ((source, -1, "row"), (target, -2, "column")):
        _refuse_closed(blocked.all(axis), side, name)
    # the exact methods take costs of one size; their potentials are at most some hundred tau (KL) or tau (TV)
    reach = float(cost.abs().masked_fill(blocked, 0).max())
    price = 2e3 * sum(side.tau for side in (source, target) if not side.hard)
    return cost.double().masked_fill(blocked, 2 * reach + price), blocked


def close(
    blocked: Tensor, a: Tensor, b: Tensor, source: Marginal, target: Marginal, reference: str
) -> Closed:  # fmt: skip
    """What is closed; an error where that has to keep its mass.  Under R = a b' no mass meets a zero weight."""
    absent_a, absent_b = ((w <= 0) & (reference == "product") for w in (a, b))
    closed = Closed((blocked | absent_b[:, None, :]).all(-1), (blocked | absent_a[:, :, None]).all(-2), a, b)
    _refuse_closed(closed.rows & (a > 0), source, "row")
    _refuse_closed(closed.columns & (b > 0), target, "column")
    return closed


def _refuse_closed(closed: Tensor, side: Marginal, name: str) -> None:
    if math.isinf(float(side.divergence.phi(torch.zeros((), device=closed.device)))) and bool(closed.any()):
        raise ArgumentError(
            f"cost: a {name} is +inf throughout, but its marginal may not be zero; "
            "give that side a finite tau and a divergence such as 'kl'."
        )


def components(pairs: np.ndarray) -> np.ndarray:
    """The connected component of each row, then of each column, where `pairs` may be matched."""
    from scipy.sparse import bmat, csr_array
    from scipy.sparse.csgraph import connected_components

    return connected_components(bmat([[None, csr_array(pairs)], [csr_array(pairs.T), None]]), directed=False)[1]
