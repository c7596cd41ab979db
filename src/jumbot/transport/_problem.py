"""One transport problem, or a batch of them, checked once for all solvers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import check_non_negative, check_word
from jumbot.errors import ArgumentError, UnsupportedError
from jumbot.transport._checks import probe
from jumbot.transport._marginal import L2Marginal, Marginal, PartialMarginal, marginals
from jumbot.transport.divergences import Divergence

#: The cost of a blocked pair in the sweeps: beyond any potential, so that e^{(f+g-C)/epsilon} is zero.
FORBIDDEN = 1e60
#: Potentials of points that nothing can be matched to, in units of tau: they keep no mass.
EMPTY = 1e12
_BEYOND = 1e100


@dataclass(frozen=True)
class Closed:
    """Rows and columns without any allowed pair: their mass is always lost.

    In the problem that is solved they have no weight; `a` and `b` are the weights as given.
    """

    rows: Tensor
    columns: Tensor
    a: Tensor
    b: Tensor


def block(
    cost: Tensor, well_scaled: bool, epsilon: float, source: Marginal, target: Marginal
) -> tuple[Tensor, Tensor | None]:
    """Replace +inf by a cost that no plan pays; refuse NaN and -inf, which `well_scaled` costs do not contain.

    At prices on both sides a cost beyond 1e100 times all of them is as good as +inf: e^-1e100 is zero.
    """
    if well_scaled:
        return cost, None
    if bool(cost.isnan().any()):
        raise ArgumentError(f"cost: contains {int(cost.isnan().sum())} NaN; clean the points it was made from.")
    if bool(cost.isneginf().any()):
        raise ArgumentError("cost: contains -inf; costs may be +inf (never matched) but not -inf.")
    blocked = cost.isposinf()
    if epsilon > 0:
        if not (source.hard or target.hard):
            blocked = blocked | (cost > _BEYOND * max(epsilon, source.tau, target.tau))
        elif (reach := float(cost.abs().masked_fill(blocked, 0).max())) > _BEYOND * epsilon:
            raise ArgumentError(
                f"cost: {reach:g} is too large for epsilon = {epsilon:g} with an exact marginal; "
                "raise epsilon, or use epsilon=0."
            )
    if not bool(blocked.any()):
        return cost, None
    if source.hard and target.hard:
        raise ArgumentError(
            "cost: contains +inf while both marginals are constrained, so a plan may not exist; "
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


def close(blocked: Tensor, a: Tensor, b: Tensor, source: Marginal, target: Marginal, reference: str) -> Closed:
    """The closed rows and columns; an error if their mass must be kept.  Under R = a b', zero weights have no mass."""
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


def refuse_absent(side: Marginal, weights: Tensor, name: str) -> None:
    if isinstance(side, L2Marginal) and bool((weights <= 0).any()):
        raise UnsupportedError(
            f"{name} must be > 0 where the divergence is 'l2' and the reference is not 'product', got zeros; "
            "drop those points, or use reference='product'."
        )


def components(pairs: np.ndarray) -> np.ndarray:
    """The connected component of each row, then of each column, where `pairs` may be matched."""
    from scipy.sparse import bmat, csr_array
    from scipy.sparse.csgraph import connected_components

    return connected_components(bmat([[None, csr_array(pairs)], [csr_array(pairs.T), None]]), directed=False)[1]


_LEAST, _MOST = 1e-40, 1e40  # of what is certainly well scaled: the square or the sum of all costs, prices, and masses


@dataclass(frozen=True)
class Problem:
    """min_{P >= 0} <C, P> + epsilon KL(P | R) + F_a(P 1) + F_b(P' 1), for each problem of the batch.

    `cost` is `(B, n, m)`, finite; `a` and `b` are `(B, n)` and `(B, m)` or `(1, n)` and `(1, m)` in float64.
    """

    cost: Tensor
    a: Tensor
    b: Tensor
    epsilon: float
    source: Marginal
    target: Marginal
    reference: str
    blocked: Tensor | None = None  # where the cost as given was +inf: never matched
    closed: Closed | None = None
    tilt: Tensor | None = None  # epsilon log R of a reference matrix, taken from the cost (`_restated.py`)
    reference_mass: Tensor | None = None
    counted: tuple[Tensor, Tensor] | None = None  # r_a and r_b where points represent several (`engine_choice.py`)
    well_scaled: bool = True  # whether no number is so large or small that another unit may be needed (`_restated.py`)

    @property
    def sides(self) -> tuple[tuple[Marginal, Tensor], tuple[Marginal, Tensor]]:
        return (self.source, self.a), (self.target, self.b)

    @property
    def given(self) -> tuple[Tensor, Tensor]:
        """The weights as given."""
        return (self.a, self.b) if self.closed is None else (self.closed.a, self.closed.b)

    @cached_property
    def reference_weights(self) -> tuple[Tensor, Tensor]:
        """R = r_a r_b', zero on closed rows and columns."""
        if self.counted is not None:
            return self.counted
        if self.reference == "product":
            return self.a, self.b
        if self.closed is None:
            return torch.ones_like(self.a), torch.ones_like(self.b)
        return (~self.closed.rows).double(), (~self.closed.columns).double()

    @cached_property
    def offsets(self) -> tuple[Tensor, Tensor]:
        """epsilon log(a / r_a): what turns a soft minimum under R into the argument of `Marginal.step`."""
        if self.reference == "product":
            return torch.zeros_like(self.a), torch.zeros_like(self.b)
        r_a, r_b = self.reference_weights  # for coarse points, the number of points that each represents
        return (
            self.epsilon * torch.log(torch.where(r_a > 0, self.a / r_a, 1.0)),
            self.epsilon * torch.log(torch.where(r_b > 0, self.b / r_b, 1.0)),
        )

    @cached_property
    def groups(self) -> tuple[Tensor, Tensor]:
        """A number for each row and column `(B, n)`, `(B, m)`: blocked pairs separate those of different numbers."""
        batch, n, m = self.cost.shape
        labels = torch.zeros(batch, n + m, dtype=torch.long, device=self.cost.device)
        if self.blocked is not None:
            found = np.stack([components(pairs) for pairs in ~self.blocked.cpu().numpy()])
            labels = torch.from_numpy(found).long().to(self.cost.device)
        return labels[:, :n], labels[:, n:]

    @cached_property
    def constant(self) -> float | Tensor:
        """epsilon sum(R), the part of epsilon KL(P | R) that no plan changes."""
        if self.epsilon == 0:
            return 0.0
        if self.reference_mass is not None:
            return self.epsilon * self.reference_mass
        if self.reference == "ones":
            return self.epsilon * self.cost.shape[1] * self.cost.shape[2]
        a, b = self.given
        return self.epsilon * a.sum(-1) * b.sum(-1)

    @property
    def most(self) -> float:
        """A bound on every `constant` of the batch, by the mass of all its weights."""
        if self.epsilon == 0 or self.reference == "ones" or self.cost.device.type != "cpu":
            return self.constant if isinstance(self.constant, float | int) else float(self.constant.max())
        a, b = (float(np.add.reduce(x.numpy(), axis=None)) for x in self.given)  # microseconds matter here
        return self.epsilon * a * b

    @cached_property
    def lost(self) -> Tensor | None:
        """F_a + F_b of the closed rows and columns, `(B,)`."""
        if self.closed is None:
            return None
        rows, columns = self.closed.a - self.a, self.closed.b - self.b
        return self.source.penalty(torch.zeros_like(rows), rows) + self.target.penalty(
            torch.zeros_like(columns), columns
        )

    def take(self, index: Tensor | slice) -> Problem:
        """The problems at `index` of the batch."""

        def rows(x: Tensor) -> Tensor:
            return x if x.shape[0] == 1 else x[index]

        return replace(
            self,
            cost=self.cost[index],
            a=rows(self.a),
            b=rows(self.b),
            blocked=None if self.blocked is None else self.blocked[index],
            closed=self.closed and Closed(*(x[index] for x in vars(self.closed).values())),
            tilt=None if self.tilt is None else self.tilt[index],
            reference_mass=None if self.reference_mass is None else self.reference_mass[index],
            counted=self.counted and (rows(self.counted[0]), rows(self.counted[1])),
        )


@lru_cache(maxsize=64)
def _uniform(size: int, device: torch.device) -> Tensor:
    return torch.full((1, size), 1 / size, dtype=torch.float64, device=device)


@lru_cache(maxsize=64)
def _matched(n: int, m: int, device: torch.device) -> Tensor:
    """Uniform weights of m points, of the very mass that those of n have."""
    a, b = _uniform(n, device), _uniform(m, device)
    return b * (a.sum(-1, keepdim=True) / b.sum(-1, keepdim=True))


def check_weights(name: str, weights: Tensor | None, size: int, cost: Tensor, batch: torch.Size) -> Tensor:
    """`(B, size)` or `(1, size)` in float64, non-negative, not all zero; uniform of mass one by default."""
    if weights is None:
        return _uniform(size, cost.device)
    axis = "rows" if name == "a" else "columns"
    if weights.ndim == 0 or weights.shape[-1] != size:
        raise ArgumentError(
            f"{name}: shape {tuple(weights.shape)} does not fit a cost of shape {tuple(cost.shape)}; "
            f"it must end in {size}, the number of {axis}."
        )
    weights = weights.detach().to(torch.float64, copy=True)  # a copy, because the caller may modify the original
    total = float(weights.sum())
    if not math.isfinite(total):
        raise ArgumentError(f"{name}: contains NaN or infinite weights; clean them first.")
    if float(weights.min()) < 0:
        raise ArgumentError(f"{name}: contains the negative weight {float(weights.min()):g}; weights must be >= 0.")
    if float(weights.sum(-1).min()) <= 0:
        raise ArgumentError(f"{name}: has no mass (all weights are zero); pass at least one positive weight.")
    if weights.ndim == 1:
        return weights[None]
    try:
        return weights.expand(*batch, size).reshape(-1, size)
    except RuntimeError:
        raise ArgumentError(
            f"{name}: batch shape {tuple(weights.shape[:-1])} does not broadcast to the cost's {tuple(batch)}."
        ) from None


def _heaviest(weights: Tensor) -> float:
    """A bound on every weight: their products may overflow where neither cost nor price is large."""
    return float(np.add.reduce(weights.numpy(), axis=None) if weights.device.type == "cpu" else weights.sum())


REFERENCES = ("product", "ones")


class Terms(NamedTuple):
    """The terms added to <C, P> and the constraints, as given: `make_problem` checks them."""

    epsilon: Any
    tau: Any = math.inf
    divergence: str | Divergence = "kl"
    reference: Any = "product"
    mass: Any = None


def check_reference(reference: object) -> None:
    """A name; matrices are for `jumbot.solve` alone."""
    if not isinstance(reference, str):
        raise ArgumentError(f"reference must be 'product' or 'ones' here, got a {type(reference).__name__}.")
    check_word("reference", reference, REFERENCES)


def make_problem(cost: Tensor, a: Tensor | None, b: Tensor | None, terms: Terms) -> Problem:
    """Check everything and flatten the batch."""
    epsilon, tau, divergence, reference, mass = terms
    if cost.ndim < 2 or 0 in cost.shape:
        raise ArgumentError(
            f"cost: shape {tuple(cost.shape)}; it must be (..., n, m) with at least one row and one column."
        )
    epsilon = check_non_negative("epsilon", epsilon)
    source, target = marginals(divergence, tau, mass, exact=epsilon == 0)
    check_reference(reference)
    batch, (n, m) = cost.shape[:-2], cost.shape[-2:]
    weights_a = check_weights("a", a, n, cost, batch)
    weights_b = check_weights("b", b, m, cost, batch)
    if reference != "product":
        refuse_absent(source, weights_a, "a")
        refuse_absent(target, weights_b, "b")
    flat = cost.detach().reshape(-1, n, m)
    size = abs(probe(flat))
    well_scaled = (
        _LEAST < size < _MOST
        and (epsilon == 0 or _LEAST < epsilon < _MOST)
        and min(source.tau, target.tau) > _LEAST
        and max(source.tau, target.tau) < _MOST
        and (a is None or _heaviest(weights_a) < _MOST)
        and (b is None or _heaviest(weights_b) < _MOST)
    )
    flat, blocked = block(flat, well_scaled, epsilon, source, target)
    closed = None
    if blocked is not None and epsilon > 0:
        weights_a, weights_b = weights_a.expand(len(flat), n), weights_b.expand(len(flat), m)
        closed = close(blocked, weights_a, weights_b, source, target, reference)
        weights_a, weights_b = weights_a.masked_fill(closed.rows, 0.0), weights_b.masked_fill(closed.columns, 0.0)
    if a is None and b is None and source.exact and target.exact:
        weights_b = _matched(n, m, cost.device)
    else:
        weights_b = with_fitting_mass(weights_a, weights_b, source, target, cost.dtype)
    return Problem(
        flat, weights_a, weights_b, epsilon, source, target, reference, blocked, closed, well_scaled=well_scaled
    )


def with_fitting_mass(a: Tensor, b: Tensor, source: Marginal, target: Marginal, dtype: torch.dtype) -> Tensor:
    """`b`, refused where both marginals are constrained and the masses do not fit; brought to that of `a` if exact.

    Masses may differ by the rounding of weights that came in this dtype.
    """
    if not (source.hard and target.hard):
        return b
    _check_masses(a, b, source, target, 1e-5 if dtype == torch.float32 else 1e-6)
    return b * (a.sum(-1, keepdim=True) / b.sum(-1, keepdim=True)) if source.exact and target.exact else b


def weights_between(
    a: Tensor | None,
    b: Tensor | None,
    sizes: tuple[int, int],
    batch: torch.Size,
    source: Marginal,
    target: Marginal,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Weights `(B, n)` and `(B, m)` of problems between points, on the CPU, of masses that fit."""
    shaped = torch.empty((), device="cpu").expand(*batch, *sizes)  # without memory, for its shape alone
    weights = []
    for name, given, size in zip("ab", (a, b), sizes, strict=True):
        w = None if given is None else given.detach().cpu()
        weights.append(check_weights(name, w, size, shaped, batch).expand(batch.numel(), size))
    return weights[0], with_fitting_mass(weights[0], weights[1], source, target, dtype)


def _check_masses(a: Tensor, b: Tensor, source: Marginal, target: Marginal, rounding: float) -> None:
    mass_a, mass_b = a.sum(-1), b.sum(-1)
    if isinstance(source, PartialMarginal):
        least = float(torch.minimum(mass_a.min(), mass_b.min()))
        if source.mass > least * (1 + 1e-9):
            raise ArgumentError(
                f"mass: {source.mass:g} is more than the smaller of the two masses, {least:g}; pass at most that."
            )
        return
    low = torch.maximum(source.divergence.lower * mass_a, target.divergence.lower * mass_b)
    high = torch.minimum(source.divergence.upper * mass_a, target.divergence.upper * mass_b)
    off = low > high * (1 + rounding)
    if bool(off.any()):
        at = int(torch.argmax(off.to(torch.int8)))
        x, y = float(mass_a.expand_as(off)[at]), float(mass_b.expand_as(off)[at])
        fix = "normalise them, or pass a finite tau" if source.exact else "widen the range, or pass a finite tau"
        raise ArgumentError(f"a, b: the masses {x:.9g} and {y:.9g} differ, so no plan meets both marginals; {fix}.")
