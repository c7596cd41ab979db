"""POT's arguments, read as POT reads them, and results in its types."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from typing import Any, ParamSpec

import torch
from torch import Tensor

from jumbot._base.options import check_non_negative, check_whole, check_word
from jumbot.errors import ArgumentError, NotConvergedWarning
from jumbot.transport._certificate import reachable
from jumbot.transport._problem import Terms, make_problem
from jumbot.transport._solution import Solution
from jumbot.transport._solve import solve_problem

_NEAR = 1e-5  # masses that differ by less, relatively, are those of float32 weights
_FINEST, _COARSEST = 1e-13, 1e-6  # relative gaps that a `stopThr` may ask for
_SHORT = 1e-8  # a relative gap above which a solution that stopped at `numItermax` is warned about


class MismatchError(ArgumentError, AssertionError):
    """What POT raises as an AssertionError: shapes or masses that do not fit."""


@cache
def pot(name: str = "") -> Any:
    """The real package, or a module of it; it takes a second to load."""
    return import_module(f"ot.{name}" if name else "ot")


P = ParamSpec("P")


def or_pot(module: str) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Pass a call to POT's function of the same name if ours returns NotImplemented."""

    def decorate(ours: Callable[P, Any]) -> Callable[P, Any]:
        @wraps(ours)
        def answered(*args: P.args, **kwargs: P.kwargs) -> Any:
            found = ours(*args, **kwargs)
            return getattr(pot(module), ours.__name__)(*args, **kwargs) if found is NotImplemented else found

        return answered

    return decorate


def _callers() -> int:
    """The stack level, of a warning in the function that asks, of the first line outside this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(__package__ or ""):
        frame, level = frame.f_back, level + 1
    return level


@dataclass(frozen=True)
class Call:
    """Cost and weights of a call: as given, and in float64 without gradients."""

    nx: Any
    given: tuple[Any, Any, Any]  # cost, a, b, of one library
    M: Tensor
    a: Tensor
    b: Tensor

    @property
    def differentiable(self) -> bool:
        """Whether the result must have gradients."""
        return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in self.given)

    @property
    def histograms(self) -> bool:
        """Whether b holds several, as columns, for one cost; a batch of costs has a row of b for each."""
        return self.b.ndim > 1 and self.M.ndim == 2

    def out(self, x: Tensor) -> Any:
        """`x` in the library and the dtype of the cost."""
        M = self.given[0]
        if isinstance(M, Tensor):
            return x.to(M.dtype)
        return x.detach().cpu().numpy().astype(M.dtype, copy=False)[()]  # a number where it is one


def read(M: Any, a: Any, b: Any) -> Call | None:
    """The call, or None if POT itself must answer it: sparse costs, integers, JAX and other libraries."""
    M, a, b = (None if x is None else pot("utils").list_to_array(x) for x in (M, a, b))
    a, b = (None if x is None or len(x) == 0 else x for x in (a, b))
    nx = pot("backend").get_backend(*(x for x in (M, a, b) if x is not None))
    arrays = [x for x in (M, a, b) if x is not None]
    if nx.__name__ not in ("numpy", "torch") or nx.issparse(M) or hasattr(M, "toarray"):
        return None
    if not all(nx.is_floating_point(x) for x in arrays):
        return None
    if M.ndim != 2:
        raise MismatchError(f"M must have the shape (dim_a, dim_b), got {tuple(M.shape)}.")
    weights = []
    for name, w, size in (("a", a, M.shape[0]), ("b", b, M.shape[1])):
        w = nx.full((size,), 1 / size, type_as=M) if w is None else w
        if w.shape[0] != size:
            raise MismatchError(f"{name} must have {size} entries for M of shape {tuple(M.shape)}, got {w.shape[0]}.")
        weights.append(w)
    doubles = [x.detach().double() if isinstance(x, Tensor) else torch.from_numpy(x).double() for x in (M, *weights)]
    return Call(nx, (M, weights[0], weights[1]), doubles[0], doubles[1], doubles[2])


def word(name: str, value: Any, known: Collection[str]) -> str:
    """`value` in lower case: POT also accepts capitals."""
    return check_word(name, value.lower() if isinstance(value, str) else value, known)


def pair(reg_m: Any) -> tuple[float, float]:
    """`reg_m` as two numbers."""
    first, second = pot("utils").get_parameter_pair(reg_m)
    return float(first), float(second)


def solved(
    call: Call,
    *,
    epsilon: Any,
    tau: Any = math.inf,
    divergence: str = "kl",
    reference: str = "product",
    mass: float | None = None,
    c: Any = None,
    limit: Any = 100_000,
    stop: Any = 1e-9,
    start: Any = None,
    verbose: bool = False,
    warn: bool = True,
) -> Solution:
    """Solved to a relative gap of `stop` squared, because it is quadratic in the error of the plan."""
    epsilon, stop = check_non_negative("reg", epsilon), check_non_negative("stopThr", stop)
    limit = check_whole("numItermax", limit, least=1)
    cost, a, b = call.M, call.a, call.b
    if call.histograms:
        cost, a, b = cost.expand(b.shape[1], *cost.shape), a.expand(b.shape[1], -1), b.T
    if c is not None:  # epsilon KL(P | c) is <-epsilon log c, P> + epsilon KL(P | ones), except for a constant
        cost, reference = cost - epsilon * c.log(), "ones"
    if tau == math.inf and mass is None and bool(((a.sum(-1) / b.sum(-1) - 1).abs() < _NEAR).all()):
        b = b * (a.sum(-1, keepdim=True) / b.sum(-1, keepdim=True))
    try:
        problem = make_problem(cost, a, b, Terms(epsilon, tau, divergence, reference, mass))
    except ArgumentError as error:
        raise (MismatchError(str(error)) if "masses" in str(error) else error) from None
    tol = reachable(min(max(stop**2, _FINEST), _COARSEST), epsilon)
    solution = solve_problem(problem, start, tol, limit, (cost, a, b), False)
    gap = float(solution._outcome.certificate.relative_gap.max())
    if verbose:
        print(f"relative gap {gap:.1e} after {int(solution._outcome.taken.max())} iterations")
    if warn and gap > max(tol, _SHORT):
        warnings.warn(
            f"Stopped after {limit} iterations at a relative gap of {gap:.1e}; raise numItermax or reg.",
            NotConvergedWarning,
            stacklevel=_callers(),
        )
    return solution


def scalings(call: Call, solution: Solution, reference: str = "ones") -> tuple[Any, Any]:
    """log u and log v of P = u K v with K = e^{-M/reg} ("ones"), or e^{-M/reg} a b' ("product")."""
    logs = []
    for potential, weights in zip(solution.potentials, (call.a, call.b), strict=True):
        log = potential / solution._problem.epsilon
        if solution._problem.reference == "product" and reference == "ones":
            log = log + (weights.T if weights.ndim > 1 else weights).log()
        logs.append(call.out(log.T if call.histograms else log))
    return logs[0], logs[1]


def marginal_error(call: Call, solution: Solution) -> Any:
    """The norm of P'1 - b, which POT records."""
    b = call.b.T if call.histograms else call.b
    return float((solution.marginals[1] - b).norm())


#: name -> what differs; `docs/guide/compat.md` has the list.
DIFFERENCES = {
    "total_cost": (
        "the total cost of an entropic unbalanced problem includes the mass terms of KL, as POT's formula has them; "
        "the value that POT returns leaves them out"
    ),
    "tv": "problems with TV are solved to the optimum; POT's own solver may stop at its starting point",
    "exact_batch": (
        "exact problems of solve_batch are solved to the optimum; the plans of POT's proximal method are not optimal"
    ),
    "stabilised": (
        "sinkhorn_stabilized solves the same problem as sinkhorn; POT's own solver solves another problem once it "
        "absorbs its scalings"
    ),
}
_warned: set[str] = set()


class PeerDifferenceWarning(UserWarning):
    """The value differs from that of the library, which does not follow its own formula."""


def differs(name: str) -> None:
    """Warn of a difference, once in a process."""
    if name not in _warned:
        _warned.add(name)
        warnings.warn(f"jumbot.compat.ot: {DIFFERENCES[name]}.", PeerDifferenceWarning, stacklevel=_callers())


def with_gradients(
    plan: Tensor, given: tuple[Tensor, Tensor, Tensor], epsilon: float, taus: tuple[float, float], product: bool
) -> Tensor:
    """`plan`, differentiable in the cost and the weights `given`; R is a b' where `product`, else constant."""
    M, a, b = given
    out: Tensor = _Plan.apply(M, a, b, plan, epsilon, taus, product)
    return out


class _Plan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, M: Tensor, a: Tensor, b: Tensor, plan: Tensor, *settings: Any) -> Tensor:
        ctx.save_for_backward(a, b, plan)
        ctx.settings = settings
        return plan.to(M.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        a, b, P = ctx.saved_tensors
        epsilon, taus, product = ctx.settings
        rows, columns = P.sum(1), P.sum(0)
        weighted = grad.double() * P / epsilon
        left, right = weighted.sum(1), weighted.sum(0)
        diagonal_a, diagonal_b = (
            p * (1 / epsilon + (0.0 if math.isinf(tau) else 1 / tau))
            for p, tau in zip((rows, columns), taus, strict=True)
        )
        inverse = torch.where(diagonal_a > 0, 1 / torch.where(diagonal_a > 0, diagonal_a, 1.0), 0.0)
        schur = torch.diag(torch.where(diagonal_b > 0, diagonal_b, 1.0)) - (P.T * inverse) @ P / epsilon**2
        if math.isinf(taus[0]) and math.isinf(taus[1]):
            schur += diagonal_b.mean() / len(diagonal_b)  # along constants, in which the system is singular
        y = torch.linalg.solve(schur, right - P.T @ (inverse * left) / epsilon)
        x = inverse * (left - P @ y / epsilon)
        slope = P * (x[:, None] + y) / epsilon - weighted
        of_weights = []
        for u, p, w, tau in ((x, rows, a.double(), taus[0]), (y, columns, b.double(), taus[1])):
            ratio = torch.where(w > 0, p / torch.where(w > 0, w, 1.0), 1.0)
            of_weights.append(u * ratio * (1 + epsilon / tau if product else 1.0))
        return slope.to(grad.dtype), of_weights[0].to(a.dtype), of_weights[1].to(b.dtype), None, None, None, None
