"""`ot.solve`, `ot.solve_sample` and `ot.batch.solve_batch`, which return an `OTResult`."""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch import Tensor

from jumbot.compat.ot._exact_calls import emd2
from jumbot.compat.ot._pot import Call, differs, or_pot, pair, pot, read, scalings, solved
from jumbot.compat.ot._unbalanced_calls import plan_of, total_cost
from jumbot.transport._certify import of_solution
from jumbot.transport._solution import Solution
from jumbot.transport.divergences import TV

_PLAIN = ("sqeuclidean", "euclidean")


@or_pot("solvers")
def solve(
    M: Any,
    a: Any = None,
    b: Any = None,
    reg: Any = None,
    c: Any = None,
    reg_type: Any = "KL",
    unbalanced: Any = None,
    unbalanced_type: str = "KL",
    method: str | None = None,
    n_threads: int = 1,
    max_iter: int | None = None,
    plan_init: Any = None,
    potentials_init: Any = None,
    tol: float | None = None,
    verbose: bool = False,
    grad: str = "autodiff",
) -> Any:
    """As `ot.solve`: exact, entropic, unbalanced with KL and TV; the rest (L2, own regularisers) is POT's.

    Parameters
    ----------
    M, a, b, reg, c, reg_type, unbalanced, unbalanced_type
        The problem, as in POT.
    method, n_threads, max_iter, plan_init, potentials_init, tol, verbose
        As in POT; with a `method`, POT itself solves.
    grad
        Gradients of "autodiff" and "last_step" are those of the optimum.

    Returns
    -------
    ot.utils.OTResult
        `result.log["certificate"]` is ours.

    Raises
    ------
    jumbot.ArgumentError
        If the problem has no plan.

    Examples
    --------
    >>> round(float(solve([[0.0, 1.0], [1.0, 0.0]]).value), 6)
    0.0
    """
    kind = reg_type.lower() if isinstance(reg_type, str) else ""
    ours = method is None and str(unbalanced_type).lower() in ("kl", "tv") and (not reg or kind in ("kl", "entropy"))
    call = read(M, a, b) if ours else None
    exact = math.inf, math.inf
    taus = exact if unbalanced is None else pair(unbalanced)
    if call is None or call.histograms or min(taus) <= 0 or _beyond(call, reg, taus, unbalanced_type):
        return NotImplemented
    if not reg and taus == exact:
        return _exact(call, potentials_init)
    tilted = c is not None and kind == "kl" and reg and taus != exact
    matrix = call.M.new_tensor(call.nx.to_numpy(c)) if tilted else None
    plain = _detached(call) if grad in ("envelope", "detach") and call.differentiable else call
    solution = solved(
        call,
        epsilon=reg or 0.0,
        tau=math.inf if taus == exact else taus,
        divergence=str(unbalanced_type).lower(),
        reference="product" if kind == "kl" or not reg else "ones",
        c=matrix,
        limit=1000 if max_iter is None else max_iter,
        stop=1e-9 if tol is None else tol,
        start=_start(potentials_init, reg, call),
        verbose=verbose,
    )
    return _result(call, plain, solution, kind, matrix, envelope=grad == "envelope")


def _detached(call: Call) -> Call:
    return Call(call.nx, tuple(call.nx.detach(x) for x in call.given), call.M, call.a, call.b)


@or_pot("solvers")
def solve_sample(
    X_a: Any, X_b: Any, a: Any = None, b: Any = None, metric: Any = "sqeuclidean", reg: Any = None, **kwargs: Any
) -> Any:
    """As `ot.solve_sample`: from points, by the cost between them; lazy, low-rank and other methods are POT's.

    Parameters
    ----------
    X_a, X_b, a, b
        The points and their weights.
    metric
        The ground cost: "sqeuclidean" or "euclidean"; others are POT's.
    reg, **kwargs
        As in `solve`.

    Returns
    -------
    ot.utils.OTResult
        `result.log["certificate"]` is ours.

    Raises
    ------
    jumbot.ArgumentError
        If the problem has no plan.

    Examples
    --------
    >>> import numpy as np
    >>> float(solve_sample(np.zeros((2, 1)), np.ones((2, 1))).value)
    1.0
    """
    taken = set(inspect.signature(solve).parameters) - {"M", "a", "b", "reg"}
    plain = set(kwargs) <= taken and metric in _PLAIN and kwargs.get("method") is None
    if not plain:
        return NotImplemented
    X_a, X_b = (pot("utils").list_to_array(X) for X in (X_a, X_b))
    return solve(pot("utils").dist(X_a, X_b, metric=metric), a, b, reg=reg, **kwargs)


@or_pot("batch")
def solve_batch(
    M: Any,
    reg: Any = None,
    a: Any = None,
    b: Any = None,
    max_iter: int = 1000,
    tol: float = 1e-5,
    method: str = "auto",
    inner_iter: int = 1,
    inner_reg: float = 1e-3,
    reg_type: str = "entropy",
    grad: str = "envelope",
) -> Any:
    """As `ot.batch.solve_batch`: a batch of balanced problems, entropic or, without `reg`, exact.

    Where the plans are to be differentiated ("autodiff", "last_step") POT answers.

    Parameters
    ----------
    M, reg, a, b
        The costs `(batch, n, m)`, strength of the entropy, and weights.
    max_iter, tol, method, inner_iter, inner_reg, reg_type, grad
        As in POT.

    Returns
    -------
    ot.utils.OTResult
        One value and plan per problem.

    Raises
    ------
    jumbot.ArgumentError
        If a problem has no plan.
    """
    nx = pot("backend").get_backend(*(x for x in (M, a, b) if x is not None))
    known = method in ("auto", "proximal", "sinkhorn", "log_sinkhorn") and grad in ("envelope", "detach", None)
    tensors = [x for x in (M, a, b) if isinstance(x, Tensor)]
    gradients = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    through = gradients and grad not in ("envelope", "detach", None)
    if nx.__name__ not in ("numpy", "torch") or not known or reg_type.lower() not in ("kl", "entropy") or through:
        return NotImplemented
    if method in ("sinkhorn", "log_sinkhorn") and not reg:
        return NotImplemented  # refused in its words
    return _batch(nx, M, reg, a, b, max_iter, tol, reg_type.lower(), grad)


def _batch(nx: Any, M: Any, reg: Any, a: Any, b: Any, limit: int, tol: float, reg_type: str, grad: Any) -> Any:
    size, n, m = M.shape
    a = nx.full((size, n), 1 / n, type_as=M) if a is None else a
    b = nx.full((size, m), 1 / m, type_as=M) if b is None else b
    cost, left, right = (
        x.detach().double() if isinstance(x, Tensor) else torch.from_numpy(x).double() for x in (M, a, b)
    )
    call = Call(nx, (M, a, b), cost, left, right)
    solution = solved(call, epsilon=reg or 0.0, limit=limit, stop=min(tol, 1e-6))
    plan = call.out(solution.plan)
    logs = list(solution.potentials)
    if reg:
        logs = [f / reg + w.log() for f, w in zip(logs, (left, right), strict=True)]
    else:
        differs("exact_batch")
    M = nx.detach(M) if grad in ("detach", None) else M
    linear = nx.sum(M * plan, axis=(1, 2))
    value = linear
    if reg:
        logarithm = nx.log(plan + (plan == 0)) * plan
        if reg_type == "kl":
            logarithm = logarithm - plan * nx.log(a[:, :, None] * b[:, None, :])
        value = linear + reg * nx.sum(logarithm, axis=(1, 2))
    log = {"n_iter": int(solution._outcome.taken.max()), "certificate": of_solution(solution)}
    potentials = call.out(logs[0]), call.out(logs[1])
    return pot("utils").OTResult(
        value=value, value_linear=linear, potentials=potentials, plan=plan, backend=nx, log=log
    )


def _beyond(call: Call, reg: Any, taus: tuple[float, float], unbalanced_type: Any) -> bool:
    """Whether the requested gradients exist only for POT's own iterations."""
    if not call.differentiable:
        return False
    soft = taus != (math.inf, math.inf)
    return soft and (not reg or str(unbalanced_type).lower() == "tv")


def _exact(call: Call, start: Any) -> Any:
    M, a, b = call.given
    value, log = emd2(a, b, M, log=True, return_matrix=True, potentials_init=start)
    return pot("utils").OTResult(
        potentials=(log["u"], log["v"]),
        value=value,
        value_linear=value,
        plan=log["G"],
        status="Converged",
        backend=call.nx,
        log={"certificate": log["certificate"]},
    )


def _start(potentials: Any, reg: Any, call: Call) -> Any:
    """Logarithms of scalings, as POT takes them."""
    if potentials is None or not reg:
        return None
    f, g = (reg * call.M.new_tensor(call.nx.to_numpy(x)) for x in potentials)
    return f[None], g[None]


def _result(call: Call, plain: Call, solution: Solution, kind: str, c: Any, envelope: bool) -> Any:
    """An `OTResult`; gradients come through the plan, or by the envelope theorem."""
    nx, epsilon = call.nx, solution._problem.epsilon
    plan = plan_of(plain, solution, c is None)
    M, a, b = plain.given
    linear = nx.sum(M * plan)
    soft = not (solution._problem.source.exact and solution._problem.target.exact)
    if soft:
        if any(isinstance(side.divergence, TV) for side in (solution._problem.source, solution._problem.target)):
            differs("tv")
        elif epsilon:
            differs("total_cost")
        value = total_cost(plain, solution, plan, c)
        potentials = scalings(call, solution, reference="product") if epsilon else None
    else:
        logarithm = nx.sum(plan * nx.log(plan + (plan == 0)))
        if kind == "kl":
            logarithm = logarithm - nx.sum(plan * nx.log(a[:, None] * b[None, :] + ((a[:, None] * b[None, :]) == 0)))
        value = linear + epsilon * logarithm
        potentials = scalings(call, solution)
    if envelope and call.differentiable:
        logs = [x.detach() for x in scalings(call, solution, "product" if kind == "kl" or soft else "ones")]
        slopes = [epsilon * (x - x.mean()) for x in logs]
        value = nx.set_gradients(value, call.given, (plan, *slopes))
    return pot("utils").OTResult(
        potentials=potentials,
        value=value,
        value_linear=linear,
        plan=plan,
        backend=nx,
        log={"certificate": of_solution(solution)},
    )
