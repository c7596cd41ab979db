"""`sinkhorn` and `sinkhorn2`: entropic balanced transport."""

from __future__ import annotations

from typing import Any

from jumbot._base.options import check_positive
from jumbot.compat.ot._pot import (
    Call,
    marginal_error,
    or_pot,
    read,
    scalings,
    solved,
    with_gradients,
    word,
)
from jumbot.transport._certify import of_solution
from jumbot.transport._solution import Solution

_METHODS = ("sinkhorn", "sinkhorn_log", "greenkhorn", "sinkhorn_stabilized", "sinkhorn_epsilon_scaling")
_METHODS2 = ("sinkhorn", "sinkhorn_log", "sinkhorn_stabilized")  # of sinkhorn2
_BALANCED = (float("inf"), float("inf"))


@or_pot("bregman")
def sinkhorn(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    warn: bool = True,
    warmstart: Any = None,
    **kwargs: Any,
) -> Any:
    """The plan of entropic balanced transport, as `ot.sinkhorn`.

    Parameters
    ----------
    a, b, M, reg
        Weights, cost and strength of the entropy; `b` may hold several histograms.
    method
        POT's methods all solve the same problem, and one solver answers them.
    numItermax, stopThr, verbose, warn, warmstart, **kwargs
        As in POT.
    log
        Also return a dict with err, niter, u, v, log_u, log_v, alpha, beta, warmstart and certificate.

    Returns
    -------
    array, or pair of array and dict
        The plan; the costs where `b` holds several histograms.

    Raises
    ------
    jumbot.ArgumentError
        If the masses differ or the method is unknown.

    Examples
    --------
    >>> sinkhorn([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 1.0).round(4).tolist()
    [[0.3655, 0.1345], [0.1345, 0.3655]]
    """
    call = _read(M, a, b, method, warmstart)
    if call is None:
        return NotImplemented
    solution = _solved(call, reg, numItermax, stopThr, verbose, warn, warmstart)
    out = call.out(solution.linear) if call.histograms else _plan(call, solution)
    return (out, _record(call, solution)) if log else out


@or_pot("bregman")
def sinkhorn2(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    warn: bool = False,
    warmstart: Any = None,
    **kwargs: Any,
) -> Any:
    """<P, M> of entropic balanced transport, as `ot.sinkhorn2`, differentiable in cost and weights.

    Parameters
    ----------
    a, b, M, reg
        Weights, cost and strength of the entropy; `b` may hold several histograms.
    method, numItermax, stopThr, verbose, log, warn, warmstart, **kwargs
        As in `sinkhorn`.

    Returns
    -------
    float, or pair of float and dict
        The cost; one per histogram.

    Raises
    ------
    jumbot.ArgumentError
        If the masses differ or the method is unknown.

    Examples
    --------
    >>> round(float(sinkhorn2([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 1.0)), 4)
    0.2689
    """
    call = _read(M, a, b, method, warmstart, _METHODS2)
    if call is None:
        return NotImplemented
    solution = _solved(call, reg, numItermax, stopThr, verbose, warn, warmstart)
    out = call.out(solution.linear) if call.histograms else call.nx.sum(call.given[0] * _plan(call, solution))
    return (out, _record(call, solution)) if log else out


def _read(M: Any, a: Any, b: Any, method: str, warmstart: Any, methods: tuple[str, ...] = _METHODS) -> Call | None:
    word("method", method, methods)
    call = read(M, a, b)
    # several histograms at once carry no gradients through ours, and have one start each
    return None if call is not None and call.histograms and (call.differentiable or warmstart is not None) else call


def _solved(call: Call, reg: Any, limit: Any, stop: Any, verbose: bool, warn: bool, warmstart: Any) -> Solution:
    reg, start = check_positive("reg", reg), None
    if warmstart is not None:
        logs = (call.nx.to_numpy(x) for x in warmstart)
        start = tuple(
            (reg * (w.new_tensor(log) - w.log())).nan_to_num(neginf=0.0, posinf=0.0)[None]
            for log, w in zip(logs, (call.a, call.b), strict=True)
        )
    return solved(call, epsilon=reg, limit=limit, stop=stop, start=start, verbose=verbose, warn=warn)


def _plan(call: Call, solution: Solution) -> Any:
    if not call.differentiable:
        return call.out(solution.plan)
    return with_gradients(solution.plan, call.given, solution._problem.epsilon, _BALANCED, product=True)


def _record(call: Call, solution: Solution) -> dict[str, Any]:
    log_u, log_v = scalings(call, solution)
    nx, reg, taken = call.nx, solution._problem.epsilon, int(solution._outcome.taken.max())
    return {
        "err": [marginal_error(call, solution)],
        "niter": taken,
        "n_iter": taken,
        "u": nx.exp(log_u),
        "v": nx.exp(log_v),
        "log_u": log_u,
        "log_v": log_v,
        "logu": log_u,
        "logv": log_v,
        "alpha": reg * log_u,
        "beta": reg * log_v,
        "warmstart": (log_u, log_v),
        "certificate": of_solution(solution),
    }
