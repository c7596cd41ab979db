"""The arguments of `certify`, checked once: a problem by its matrix or by its points, a plan, potentials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from jumbot._base.options import check_number, check_word
from jumbot.cost import Cost, parse_cost
from jumbot.errors import ArgumentError
from jumbot.transport._checks import Array, as_tensor, called, read_clouds
from jumbot.transport._marginal import Marginal, marginals
from jumbot.transport._problem import REFERENCES, Terms, check_weights, with_fitting_mass

_AT_ONCE = 1 << 21  # entries of a block of rows


@dataclass(frozen=True)
class Given:
    """A problem whose cost is read in blocks of rows; a `(B, n)` and b `(B, m)` in float64, all on the CPU."""

    costs: Tensor | None  # (B, n, m); None where they come from points
    points: tuple[Tensor, Tensor, Cost] | None
    a: Tensor
    b: Tensor
    epsilon: float
    source: Marginal
    target: Marginal
    reference: str
    batch: torch.Size
    numpy: bool
    device: torch.device

    @property
    def sides(self) -> tuple[tuple[Marginal, Tensor], tuple[Marginal, Tensor]]:
        return (self.source, self.a), (self.target, self.b)

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.a), self.a.shape[-1], self.b.shape[-1]

    @cached_property
    def matrix(self) -> Tensor:
        """The whole cost, `(..., n, m)`."""
        costs = self.cost(slice(None)) if self.costs is None else self.costs
        return costs.reshape(*self.batch, *self.shape[1:])

    @cached_property
    def constant(self) -> float | Tensor:
        """epsilon sum(R)."""
        _, n, m = self.shape
        return self.epsilon * (n * m if self.reference == "ones" else self.a.sum(-1) * self.b.sum(-1))

    @cached_property
    def log_reference(self) -> tuple[Tensor, Tensor]:
        """log r_a and log r_b with R = r_a r_b'."""
        weights = (self.a, self.b)
        if self.reference == "ones":
            return torch.zeros_like(self.a), torch.zeros_like(self.b)
        return weights[0].log(), weights[1].log()

    def blocks(self) -> Iterator[slice]:
        batch, n, m = self.shape
        step = max(1, _AT_ONCE // (batch * m))
        return (slice(first, min(first + step, n)) for first in range(0, n, step))

    def cost(self, rows: slice) -> Tensor:
        """Rows of the cost, `(B, r, m)`; +inf means never matched."""
        if self.costs is not None:
            return self.costs[:, rows].double()
        assert self.points is not None
        x, y, ground = self.points
        return check_costs(ground(x[:, rows], y))


def check_costs(costs: Tensor) -> Tensor:
    """`costs` unless it contains NaN or -inf."""
    if bool(costs.isnan().any()):
        raise ArgumentError("cost must not contain NaN; clean the points that it was made from.")
    if bool(costs.isneginf().any()):
        raise ArgumentError("cost must not contain -inf; +inf means never matched.")
    return costs


def read_problem(
    cost: Array | str | Cost | None,
    a: Array | None,
    b: Array | None,
    x: Array | None,
    y: Array | None,
    terms: Terms,
) -> Given:
    """Check everything, without looking at the cost between points."""
    epsilon, tau, divergence, reference, mass = terms
    epsilon = check_number("epsilon", epsilon, least=0)
    source, target = marginals(divergence, tau, mass)
    check_word("reference", reference, REFERENCES)
    if (x is None) != (y is None):
        raise ArgumentError("x, y must be given together, or neither of them.")
    if x is None:
        if cost is None or isinstance(cost, str) or callable(cost):
            raise ArgumentError(f"cost must be a matrix where x and y are not given, got {cost!r}.")
        numpy = not isinstance(cost, Tensor)
        like = as_tensor(cost, "cost", numpy=numpy).detach()
        if like.ndim < 2 or 0 in like.shape:
            raise ArgumentError(f"cost must have the shape (..., n, m) and not be empty, got {tuple(like.shape)}.")
        batch, (n, m), points = like.shape[:-2], like.shape[-2:], None
        costs: Tensor | None = check_costs(like.cpu().reshape(-1, n, m))
    else:
        numpy = not isinstance(x, Tensor)
        like, points, batch = _read_points(cost, x, y)
        costs, n, m = None, points[0].shape[-2], points[1].shape[-2]
    weights = []
    for name, given, size in (("a", a, n), ("b", b, m)):
        w = None if given is None else as_tensor(given, name, like, numpy).detach().cpu()
        shaped = torch.empty(()).expand(*batch, n, m)  # no memory: only its shape is read
        weights.append(check_weights(name, w, size, shaped, batch).expand(batch.numel(), size))
    weights[1] = with_fitting_mass(weights[0], weights[1], source, target, like.dtype)
    out = Given(costs, points, weights[0], weights[1], epsilon, source, target, reference, batch, numpy, like.device)
    return out if points is None or cost is None or isinstance(cost, str) else _at_once(out)


def _at_once(given: Given) -> Given:
    """A callable is asked once for all pairs: what it returns for a block may depend on the other rows."""
    assert given.points is not None
    x, y, ground = given.points
    return replace(given, costs=check_costs(called(ground, x, y).detach().double()), points=None)


def _read_points(cost: Any, x: Any, y: Any) -> tuple[Tensor, tuple[Tensor, Tensor, Cost], torch.Size]:
    """x as given, then both as `(B, n, d)` and `(B, m, d)` in float64, and the batch shape."""
    ground = parse_cost("sqeuclidean" if cost is None else _name_or_callable(cost))
    x, y, batch = read_clouds(x, y)
    flat = [z.detach().cpu().double().expand(*batch, *z.shape[-2:]).reshape(-1, *z.shape[-2:]) for z in (x, y)]
    return x, (flat[0], flat[1], ground), batch


def _name_or_callable(cost: Any) -> Any:
    if not isinstance(cost, str) and not callable(cost):
        raise ArgumentError("cost must be a name or a callable where x and y are given, got a matrix.")
    return cost


def read_plan(plan: Array, given: Given) -> Tensor:
    """`(B, n, m)`, in the precision given."""
    shape = (*given.batch, *given.shape[1:])
    tensor = _read("plan", plan, given)
    if tensor.shape != shape:
        raise ArgumentError(f"plan must have the shape of the cost, {tuple(shape)}, got {tuple(tensor.shape)}.")
    return tensor.reshape(given.shape)


def read_potentials(potentials: Any, given: Given) -> tuple[Tensor, Tensor]:
    """`(B, n)` and `(B, m)` in float64."""
    if not isinstance(potentials, tuple | list) or len(potentials) != 2:
        raise ArgumentError("potentials must be a pair (f, g).")
    out = []
    for name, potential, size in zip(("f", "g"), potentials, given.shape[1:], strict=True):
        tensor = _read(f"potentials ({name})", potential, given)
        if tensor.ndim == 0 or tensor.shape[-1] != size:
            raise ArgumentError(f"potentials: {name} must have the shape (..., {size}), got {tuple(tensor.shape)}.")
        try:
            out.append(tensor.double().expand(*given.batch, size).reshape(-1, size))
        except RuntimeError:
            raise ArgumentError(
                f"potentials: {name} must broadcast to the batch {tuple(given.batch)}, got {tuple(tensor.shape)}."
            ) from None
    return out[0], out[1]


def _read(name: str, array: Any, given: Given) -> Tensor:
    if isinstance(array, Tensor) and not given.numpy and array.is_floating_point():
        array = array.float() if array.itemsize < 4 else array  # half precision is judged as what it holds
    return as_tensor(array, name, numpy=given.numpy).detach().cpu()
