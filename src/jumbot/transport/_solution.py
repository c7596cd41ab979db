"""The result of a solver: the plan, its cost, and its certificate."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, SupportsFloat

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import check_whole
from jumbot.errors import ArgumentError, NotConvergedWarning
from jumbot.transport._certificate import reachable
from jumbot.transport._entropic.translation import in_gauge
from jumbot.transport._gradients import Inputs, with_gradients, with_plan
from jumbot.transport._outcome import AnyOutcome
from jumbot.transport._placement import returned
from jumbot.transport._problem import Problem

Generator = torch.Generator | np.random.Generator


def draw_pairs(plan: Tensor, count: int, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Rows and columns `(B, count)`, each pair drawn independently with probability P_ij / sum(P).

    `plan` is `(B, n, m)`.  Without a generator the seed comes from the operating system; global generators are not
    used.

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
    # u < 1, but u * total can round up to total, beyond the last cell
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
            f"generator: got {type(generator).__name__}; pass a torch.Generator or a numpy.random.Generator, "
            "e.g. torch.Generator().manual_seed(0)."
        )
    return generator


def uniform(shape: tuple[int, int], generator: Generator) -> Tensor:
    """Numbers from [0, 1) in float64."""
    if isinstance(generator, torch.Generator):
        return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.from_numpy(generator.random(shape))


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: The type of the cost, a tensor or a numpy array; a bare `Solution` does not fix it.
    ArrayT = TypeVar("ArrayT", bound=SupportsFloat, default=Any)
else:
    from typing import TypeVar

    ArrayT = TypeVar("ArrayT")


class Status(enum.Enum):
    """How a solver ended; each member is its own help text.

    >>> print(Status.CONVERGED)
    The relative gap is within tol: the optimum lies in [value - gap, value].
    """

    CONVERGED = "The relative gap is within tol: the optimum lies in [value - gap, value]."
    MAX_ITERATIONS = (
        "Stopped at max_iterations with a relative gap above tol. The optimum still lies in [value - gap, value]; "
        "raise max_iterations, loosen tol, or raise epsilon."
    )
    FAILED = (
        "No further progress is possible in this precision, and the relative gap is above tol. The optimum still "
        "lies in [value - gap, value]; check the scale of the cost against epsilon and tau, or pass float64."
    )
    INTERRUPTED = (
        "Stopped by Ctrl-C with a relative gap above tol. The optimum still lies in [value - gap, value]; pass the "
        "solution as init to continue."
    )
    OVERFLOW = (
        "The result exceeds the range of its dtype, so some of its numbers are infinite; pass float64 "
        "instead of float32, or a cost in a larger unit."
    )

    def __str__(self) -> str:
        return self.value


def warn_of_statuses(statuses: Sequence[Status], worst: float, tol: float, stacklevel: int) -> None:
    """One `NotConvergedWarning` for all problems of a call that stopped above `tol`, if any."""
    if short := [status for status in statuses if status is not Status.CONVERGED]:
        warnings.warn(
            f"{len(short)} of {len(statuses)} problems stopped at a relative gap of up to {worst:.1e} "
            f"(tol = {tol:g}). {short[0]}",
            NotConvergedWarning,
            stacklevel=stacklevel,
        )


@dataclass(frozen=True, repr=False, eq=False)
class Solution(Generic[ArrayT]):
    """The solution of one problem or of a batch: `plan`, `value`, and a certificate of its distance from the optimum.

    Scalars have the batch shape.  Only `value` and `linear` are differentiable; everything else is detached.

    >>> import jumbot, torch
    >>> jumbot.solve(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), epsilon=0.1, tau=1.0)
    Solution(value=0.068..., mass=0.9..., relative_gap=..., status=CONVERGED)
    """

    _problem: Problem
    _outcome: AnyOutcome
    _tol: float
    _limit: int
    _inputs: Inputs
    _numpy: bool
    _graph: bool  # whether `value` and `linear` are to be differentiated, wherever they are read
    _device: torch.device  # of what is read, wherever it was computed

    def __post_init__(self) -> None:
        if self._graph:  # made later under `inference_mode`, these tensors could not be saved for backward
            _ = self._outcome.certificate, self._outcome.f, self._outcome.g

    @property
    def _reachable_tol(self) -> float:
        return reachable(self._tol, self._problem.epsilon)

    @property
    def _may_overflow(self) -> bool:
        return self._inputs[0].dtype == torch.float32 or not self._problem.well_scaled

    @property
    def _room(self) -> float:
        """The largest number that the answer can hold."""
        return torch.finfo(self._inputs[0].dtype).max

    @property
    def _all_converged(self) -> bool:
        if self._may_overflow and not self._outcome.largest() <= self._room - self._problem.most:
            return False
        return self._outcome.all_within(self._reachable_tol)

    @cached_property
    def _statuses(self) -> np.ndarray[Any, Any]:
        """One `Status` for each problem of the flattened batch."""
        certificate = self._outcome.certificate
        done = (certificate.relative_gap <= self._reachable_tol).tolist()
        spent = (self._outcome.taken >= self._limit).tolist()
        out = np.empty(len(done), dtype=object)
        for k, (ok, all_spent) in enumerate(zip(done, spent, strict=True)):
            out[k] = Status.CONVERGED if ok else Status.MAX_ITERATIONS if all_spent else Status.FAILED
        if self._may_overflow:
            out[~(certificate.largest <= self._room - self._problem.constant).cpu().numpy()] = Status.OVERFLOW
        return out

    def _out(self, x: Tensor, *shape: int) -> ArrayT:
        cost = self._inputs[0]
        x = returned(x.reshape((*cost.shape[:-2], *shape)), cost.dtype, self._device)
        out: Any = x.numpy() if self._numpy else x
        return out

    @cached_property
    def plan(self) -> ArrayT:
        """P, `(..., n, m)`: R e^{(f+g-C)/epsilon} for epsilon > 0, rounded to exact marginals where there are any."""
        return self._out(self._outcome.plan, *self._inputs[0].shape[-2:])

    @cached_property
    def value(self) -> ArrayT:
        """The full objective at `plan`; differentiable in the cost and the weights by the envelope theorem.

        At a kink in the weights ("tv" with equal masses, epsilon = 0) the gradient is one of the subgradients.
        """
        return self._graphed(lambda: self._out(self._value))

    @cached_property
    def _value(self) -> Tensor:
        """`value` in float64, `(B,)`."""
        if not self._graph:
            return self._objective
        return self._graphed(lambda: with_gradients(self._objective, self._problem, self._outcome, self._inputs))

    @property
    def _in_double(self) -> tuple[Tensor, Tensor]:
        """Value and gap in float64: differences of values are small compared with them."""
        batch = self._inputs[0].shape[:-2]
        return self._value.reshape(batch), self._outcome.certificate.gap.reshape(batch)

    @property
    def _objective(self) -> Tensor:
        return self._outcome.certificate.objective + self._problem.constant

    @cached_property
    def linear(self) -> ArrayT:
        """<C, P>; its gradient in the cost is `plan`, held fixed, and in the weights that of the plan that moves.

        At epsilon = 0 with a finite tau the latter is not supported, and a backward pass to the weights raises.
        """
        linear = self._outcome.certificate.linear
        if not self._graph:
            return self._out(linear)
        return self._graphed(lambda: self._out(with_plan(linear, self._problem, self._outcome, self._inputs)))

    def _graphed(self, make: Callable[[], Any]) -> Any:
        """The result of `make`, with its graph, even if it is first read under `no_grad`."""
        if not self._graph:
            return make()
        with torch.inference_mode(False), torch.enable_grad():
            return make()

    @cached_property
    def gap(self) -> ArrayT:
        """value - dual >= 0, from an identity that does not subtract large numbers."""
        return self._out(self._outcome.certificate.gap)

    @cached_property
    def dual(self) -> ArrayT:
        """A lower bound of the optimum."""
        return self._out(self._objective - self._outcome.certificate.gap)

    @cached_property
    def relative_gap(self) -> ArrayT:
        """gap / (<|C|, P> + tau_a D_a + tau_b D_b + epsilon mass), the quantity that `tol` bounds."""
        return self._out(self._outcome.certificate.relative_gap)

    @cached_property
    def mass(self) -> ArrayT:
        """The total mass of `plan`."""
        return self._out(self._outcome.certificate.rows.sum(-1))

    @cached_property
    def marginals(self) -> tuple[ArrayT, ArrayT]:
        """(P 1, P' 1)."""
        n, m = self._inputs[0].shape[-2:]
        certificate = self._outcome.certificate
        return self._out(certificate.rows.clone(), n), self._out(certificate.columns.clone(), m)

    @cached_property
    def potentials(self) -> tuple[ArrayT, ArrayT]:
        """(f, g), the dual variables; pass them or the whole solution as `init` of a similar problem.

        Where both marginals are exact, or the mass is fixed, (f + t, g - t) is as good for every t; those are returned
        for which the mean of f under a equals the mean of g under b.  One pair of cost C has f = g = C/2.  With "tv"
        and equal masses t is free within bounds, and one of the best is returned.
        """
        n, m = self._inputs[0].shape[-2:]
        f, g = in_gauge(self._problem, self._outcome.f, self._outcome.g)
        return self._out(f, n), self._out(g, m)

    @cached_property
    def iterations(self) -> Any:
        """Sweeps (or interior-point steps) taken: an int, or an integer array for a batch."""
        return int(self._outcome.taken) if self._single else self._out(self._outcome.taken.long())

    @cached_property
    def status(self) -> Any:
        """A `Status`, or an array of them for a batch."""
        return self._statuses[0] if self._single else self._statuses.reshape(self._inputs[0].shape[:-2])

    @cached_property
    def converged(self) -> Any:
        """Whether `tol` was reached: a bool, or a boolean array for a batch."""
        done = self._statuses == Status.CONVERGED
        return bool(done[0]) if self._single else self._out(torch.from_numpy(done))

    def sample(self, n: int, generator: Generator | None = None) -> tuple[ArrayT, ArrayT]:
        """Indices (i, j), each `(..., n)`: n pairs of each problem, drawn independently with probability P_ij / mass.

        `generator` is a `torch.Generator` or a `numpy.random.Generator`; without one, each call draws different
        pairs; global generators are not used.

        >>> import jumbot, torch
        >>> solution = jumbot.solve(torch.tensor([[0.0, 9.0], [9.0, 0.0]]), epsilon=0.0)
        >>> i, j = solution.sample(5, torch.Generator().manual_seed(0))
        >>> i.shape, bool((i == j).all())
        (torch.Size([5]), True)
        """
        i, j = draw_pairs(self._outcome.plan, n, generator)
        return self._out(i, i.shape[-1]), self._out(j, j.shape[-1])

    @property
    def _single(self) -> bool:
        return self._inputs[0].ndim == 2

    def __repr__(self) -> str:
        if self._single:
            return (
                f"Solution(value={float(self._out(self._objective)):.4g}, mass={float(self.mass):.4g}, "
                f"relative_gap={float(self.relative_gap):.1g}, status={self.status.name})"
            )
        shape = tuple(self._inputs[0].shape[:-2])
        done = int(np.sum(self._statuses == Status.CONVERGED))
        return f"Solution(batch={shape}, converged={done} of {self._statuses.size})"
