"""One transport problem, or a batch of them, checked once so that no solver has to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError, UnboundedError, UnsupportedError
from jumbot.transport.divergences import KL, TV, Divergence, parse
from jumbot.transport.marginal import Marginal, PartialMarginal
from jumbot.transport.threads import run, split

_SMALL = 1 << 14  # entries that torch sums on one thread
_LARGE = 1 << 20  # entries whose sum takes longer than handing it to threads
#: The cost of a blocked pair in the sweeps: beyond any potential, so that e^{(f+g-C)/epsilon} is zero.
FORBIDDEN = 1e60
Array = Any  # a torch tensor or a numpy array: numpy in, numpy out


@dataclass(frozen=True)
class Closed:
    """Rows and columns of which every pair is blocked: their mass is lost whatever the others do.

    In the problem that is solved they have no weight; `a` and `b` are the weights as given.
    """

    rows: Tensor
    columns: Tensor
    a: Tensor
    b: Tensor


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
        r_a, r_b = self.reference_weights
        return (
            self.epsilon * torch.log(torch.where(r_a > 0, self.a, 1.0)),
            self.epsilon * torch.log(torch.where(r_b > 0, self.b, 1.0)),
        )

    @cached_property
    def groups(self) -> tuple[Tensor, Tensor]:
        """A number for each row and column `(B, n)`, `(B, m)`: blocked pairs separate those of different numbers."""
        batch, n, m = self.cost.shape
        labels = torch.zeros(batch, n + m, dtype=torch.long)
        if self.blocked is not None:
            labels = torch.from_numpy(np.stack([_components(pairs) for pairs in ~self.blocked.cpu().numpy()])).long()
        labels = labels.to(self.cost.device)
        return labels[:, :n], labels[:, n:]

    @cached_property
    def constant(self) -> float | Tensor:
        """epsilon sum(R), the part of epsilon KL(P | R) that no plan changes."""
        if self.epsilon == 0:
            return 0.0
        if self.reference == "ones":
            return self.epsilon * self.cost.shape[1] * self.cost.shape[2]
        a, b = self.given
        return self.epsilon * a.sum(-1) * b.sum(-1)

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

        blocked = None if self.blocked is None else self.blocked[index]
        closed = self.closed and Closed(*(x[index] for x in vars(self.closed).values()))
        return Problem(
            self.cost[index], rows(self.a), rows(self.b), self.epsilon,
            self.source, self.target, self.reference, blocked, closed,
        )  # fmt: skip


def as_tensor(x: Array, name: str, like: Tensor | None = None, numpy: bool = False) -> Tensor:
    """`x` as a tensor of float32 or float64 on the device of `like`, or an error that says what to change."""
    check_dense(x, name)
    if isinstance(x, Tensor):
        if numpy:
            raise ArgumentError(f"{name}: a torch tensor beside a numpy cost; pass all as torch or all as numpy.")
        tensor = x
    else:
        if like is not None and not numpy and isinstance(x, np.ndarray):
            raise ArgumentError(f"{name}: a numpy array beside a torch cost; pass torch.from_numpy({name}).")
        array = np.asarray(x)
        if array.dtype.kind in "iub":
            array = array.astype(np.float64)
        if array.dtype not in (np.float32, np.float64):
            raise ArgumentError(f"{name}: dtype {array.dtype}; pass float32 or float64, e.g. {name}.astype('float64').")
        if like is not None and not isinstance(x, np.ndarray):
            array = array.astype(np.float64 if like.dtype == torch.float64 else np.float32)
        tensor = from_numpy(array)
        if like is not None and like.device != tensor.device:
            tensor = tensor.to(like.device)
    if tensor.dtype not in (torch.float32, torch.float64):
        raise ArgumentError(f"{name}: dtype {tensor.dtype}; pass float32 or float64, e.g. {name}.double().")
    if like is not None and tensor.dtype != like.dtype:
        raise ArgumentError(f"{name}: {tensor.dtype} beside a cost of {like.dtype}; convert one of them.")
    if like is not None and tensor.device != like.device:
        raise ArgumentError(f"{name}: on {tensor.device} while the cost is on {like.device}; move one of them.")
    return tensor


def from_numpy(array: np.ndarray) -> Tensor:
    """The array's own memory where torch can take it, else a copy: read-only ones, and those that run backwards."""
    # an array of one entry counts as contiguous even if it runs backwards
    plain = array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.from_numpy(np.ascontiguousarray(array) if plain else array.copy())


def check_dense(x: Any, name: str) -> None:
    """An error where `x` is not an ordinary array: sparse, masked, or without numbers."""
    if isinstance(x, Tensor):
        if x.layout is not torch.strided or x.is_nested:
            kind = "nested" if x.is_nested else str(x.layout).removeprefix("torch.")
            raise ArgumentError(f"{name}: a tensor of layout {kind}; pass an ordinary one, e.g. {name}.to_dense().")
        if x.is_meta:
            raise ArgumentError(f"{name}: on the device meta, which holds no numbers; make it on another, such as cpu.")
    elif hasattr(x, "toarray"):
        raise ArgumentError(f"{name}: {type(x).__name__} is sparse; pass {name}.toarray().")
    elif isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise ArgumentError(f"{name}: a masked array with masked entries; fill them first, e.g. {name}.filled(...).")


def check_number(name: str, value: Any, *, least: float, strict: bool = False, infinite: bool = False) -> float:
    """`value` as a float within its range."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}: {value!r} is not a number.") from None
    if math.isnan(number) or number < least or (strict and number == least) or (math.isinf(number) and not infinite):
        sign = ">" if strict else ">="
        tail = " (math.inf is allowed)" if infinite else " and finite"
        raise ArgumentError(f"{name}: {number:g} came in; it must be {sign} {least:g}{tail}.")
    return number


def check_taus(tau: Any) -> tuple[float, float]:
    pair = tau if isinstance(tau, Sequence) and not isinstance(tau, str) else (tau, tau)
    if len(pair) != 2:
        raise ArgumentError(f"tau: {len(pair)} numbers came in; pass one number or a pair (source, target).")
    source, target = (check_number("tau", t, least=0, strict=True, infinite=True) for t in pair)
    return source, target


@lru_cache(maxsize=64)
def _uniform(size: int, device: torch.device) -> Tensor:
    return torch.full((1, size), 1 / size, dtype=torch.float64, device=device)


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
    weights = weights.detach().to(torch.float64, copy=True)  # ours: the caller may write to the others
    total = float(weights.sum())
    if not math.isfinite(total):
        raise ArgumentError(f"{name}: holds NaN or infinite weights; clean them first.")
    if float(weights.min()) < 0:
        raise ArgumentError(f"{name}: holds the negative weight {float(weights.min()):g}; weights must be >= 0.")
    if float(weights.sum(-1).min()) <= 0:
        raise ArgumentError(f"{name}: has no mass (all weights are zero); give at least one positive weight.")
    if weights.ndim == 1:
        return weights[None]
    try:
        return weights.expand(*batch, size).reshape(-1, size)
    except RuntimeError:
        raise ArgumentError(
            f"{name}: batch shape {tuple(weights.shape[:-1])} does not broadcast to the cost's {tuple(batch)}."
        ) from None


def make_problem(
    cost: Tensor, a: Tensor | None, b: Tensor | None, *, epsilon: Any, tau: Any, divergence: str | Divergence,
    reference: str, mass: Any,
) -> Problem:  # fmt: skip
    """Check everything and flatten the batch."""
    if cost.ndim < 2 or 0 in cost.shape:
        raise ArgumentError(
            f"cost: shape {tuple(cost.shape)}; it must be (..., n, m) with at least one row and one column."
        )
    epsilon, taus = check_number("epsilon", epsilon, least=0), check_taus(tau)
    source, target = marginals(divergence, taus, mass, exact=epsilon == 0)
    if reference not in ("product", "ones"):
        raise ArgumentError(f"reference: {reference!r} is not known; use 'product' (the paper) or 'ones'.")
    batch, (n, m) = cost.shape[:-2], cost.shape[-2:]
    weights_a = check_weights("a", a, n, cost, batch)
    weights_b = check_weights("b", b, m, cost, batch)
    flat = cost.detach().reshape(-1, n, m)
    flat, blocked = _block(flat, epsilon, taus, (source, target))
    closed = None
    if blocked is not None and epsilon > 0:
        weights_a, weights_b = weights_a.expand(len(flat), n), weights_b.expand(len(flat), m)
        closed = _close(blocked, weights_a, weights_b, (source, target), reference)
        weights_a, weights_b = weights_a.masked_fill(closed.rows, 0.0), weights_b.masked_fill(closed.columns, 0.0)
    if source.hard and target.hard:
        _check_masses(weights_a, weights_b, source, target, 1e-5 if cost.dtype == torch.float32 else 1e-6)
        if source.exact and target.exact:  # masses that differ by rounding are made equal
            weights_b = weights_b * (weights_a.sum(-1, keepdim=True) / weights_b.sum(-1, keepdim=True))
    elif epsilon == 0 and blocked is None and isinstance((target if source.hard else source).divergence, TV):
        least = float(flat.min())
        if least < -sum(taus):
            raise UnboundedError(
                f"cost: {least:g} is below -(tau_a + tau_b) = {-sum(taus):g}, so transporting ever more mass pays; "
                "raise tau or shift the cost."
            )
    return Problem(flat, weights_a, weights_b, epsilon, source, target, reference, blocked, closed)


def marginals(
    divergence: str | Divergence, taus: tuple[float, float], mass: Any = None, *, exact: bool = False
) -> tuple[Marginal, Marginal]:  # fmt: skip
    """The two sides that a divergence with its prices, or a total mass, stands for; `exact` means epsilon = 0."""
    mass = None if mass is None else check_number("mass", mass, least=0, strict=True)
    if isinstance(divergence, str):
        return _named_marginals(divergence, taus, mass, exact)
    return _marginals(parse(divergence), taus, mass, exact)


@lru_cache(maxsize=256)
def _named_marginals(
    name: str, taus: tuple[float, float], mass: float | None, exact: bool
) -> tuple[Marginal, Marginal]:  # fmt: skip
    """Made once for every combination of numbers: a training loop asks again each step."""
    return _marginals(parse(name), taus, mass, exact)


def _marginals(
    phi: Divergence, taus: tuple[float, float], mass: float | None, exact: bool
) -> tuple[Marginal, Marginal]:  # fmt: skip
    finite = any(map(math.isfinite, taus))
    if mass is not None:
        if finite or not isinstance(phi, KL):
            raise ArgumentError("mass: partial transport has no tau and no divergence; leave both at their defaults.")
        side = PartialMarginal.of_mass(mass)
        return side, side
    constraint = phi.lower > 0 or phi.upper < math.inf
    if constraint and finite:
        raise ArgumentError(
            f"tau: {taus[0]:g}, {taus[1]:g} came in with the constraint {phi!r}, which has no price; leave tau out."
        )
    source, target = Marginal.of(phi, taus[0]), Marginal.of(phi, taus[1])
    if exact and not (source.exact and target.exact) and not isinstance(phi, KL | TV):
        raise UnsupportedError(
            f"divergence: {phi!r} is not offered at epsilon = 0; there use 'kl', 'tv', no tau, or mass=."
        )
    return source, target


def _components(pairs: np.ndarray) -> np.ndarray:
    """The connected component of each row, then of each column, where `pairs` may be matched."""
    from scipy.sparse import bmat, csr_array
    from scipy.sparse.csgraph import connected_components

    return connected_components(bmat([[None, csr_array(pairs)], [csr_array(pairs.T), None]]), directed=False)[1]


def _close(
    blocked: Tensor, a: Tensor, b: Tensor, sides: tuple[Marginal, Marginal], reference: str
) -> Closed:  # fmt: skip
    """What is closed; an error where that has to keep its mass.  Under R = a b' no mass meets a zero weight."""
    absent_a, absent_b = ((w <= 0) & (reference == "product") for w in (a, b))
    closed = Closed((blocked | absent_b[:, None, :]).all(-1), (blocked | absent_a[:, :, None]).all(-2), a, b)
    _refuse_closed(closed.rows & (a > 0), sides[0], "row")
    _refuse_closed(closed.columns & (b > 0), sides[1], "column")
    return closed


def _refuse_closed(closed: Tensor, side: Marginal, name: str) -> None:
    if math.isinf(float(side.divergence.phi(torch.zeros(())))) and bool(closed.any()):
        raise ArgumentError(
            f"cost: a {name} is +inf throughout, but its marginal may not be zero; "
            "give that side a finite tau and a divergence such as 'kl'."
        )


def _block(
    cost: Tensor, epsilon: float, taus: tuple[float, float], sides: tuple[Marginal, Marginal]
) -> tuple[Tensor, Tensor | None]:
    """Replace +inf by a price that no plan pays; refuse NaN and -inf."""
    # numpy's sum on one thread: torch's wakes OpenMP threads, which on a busy machine takes longer than solving
    if cost.device.type != "cpu" or cost.numel() < _SMALL:
        total = float(cost.sum())
    elif cost.numel() < _LARGE:
        total = _sum(cost.numpy())
    else:
        flat = cost.reshape(-1).numpy()
        total = sum(run(_sum, (flat[slice(*part)] for part in split(len(flat), 8 * torch.get_num_threads()))))
    if math.isfinite(total):
        return cost, None
    if bool(cost.isnan().any()):
        raise ArgumentError(f"cost: holds {int(cost.isnan().sum())} NaN; clean the points it was made from.")
    if bool(cost.isneginf().any()):
        raise ArgumentError("cost: holds -inf; costs may be +inf (never matched) but not -inf.")
    blocked = cost.isposinf()
    if not bool(blocked.any()):
        return cost, None  # only the sum overflowed
    if all(side.hard for side in sides):
        raise ArgumentError(
            "cost: holds +inf while both marginals are constrained, so a plan may not exist; "
            "+inf means 'never matched' where tau is finite. Use a large finite cost instead."
        )
    if epsilon > 0:
        return cost.double().masked_fill(blocked, FORBIDDEN), blocked
    for side, axis, name in ((sides[0], -1, "row"), (sides[1], -2, "column")):
        _refuse_closed(blocked.all(axis), side, name)
    # the exact methods take costs of one size; their potentials are at most some hundred tau (KL) or tau (TV)
    reach = float(cost.abs().masked_fill(blocked, 0).max())
    return cost.masked_fill(blocked, 2 * reach + 2e3 * sum(t for t in taus if math.isfinite(t))), blocked


def _sum(x: np.ndarray) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.add.reduce(x, axis=None))


def _check_masses(a: Tensor, b: Tensor, source: Marginal, target: Marginal, rounding: float) -> None:
    mass_a, mass_b = a.sum(-1), b.sum(-1)
    if isinstance(source, PartialMarginal):
        least = float(torch.minimum(mass_a.min(), mass_b.min()))
        if source.mass > least * (1 + 1e-9):
            raise ArgumentError(
                f"mass: {source.mass:g} is more than there is (the smaller of the two masses is {least:g})."
            )
        return
    low = torch.maximum(source.divergence.lower * mass_a, target.divergence.lower * mass_b)
    high = torch.minimum(source.divergence.upper * mass_a, target.divergence.upper * mass_b)
    off = low > high * (1 + rounding)
    if bool(off.any()):
        at = int(torch.argmax(off.to(torch.int8)))
        x, y = float(mass_a.expand_as(off)[at]), float(mass_b.expand_as(off)[at])
        fix = "normalise them, or give a finite tau" if source.exact else "widen the range, or give a finite tau"
        raise ArgumentError(f"a, b: the masses {x:.9g} and {y:.9g} differ, so no plan meets both marginals; {fix}.")
