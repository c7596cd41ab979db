"""`emd` and `emd2`: exact balanced transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from jumbot._base.options import check_positive
from jumbot.compat.ot._pot import Call, or_pot, pot, read, solved, word
from jumbot.errors import ArgumentError
from jumbot.transport._certify import of_solution
from jumbot.transport._solution import Solution


@or_pot("lp")
def emd(
    a: Any,
    b: Any,
    M: Any,
    numItermax: int = 100000,
    log: bool = False,
    center_dual: bool = True,
    numThreads: Any = 1,
    check_marginals: bool = True,
    potentials_init: Any = None,
) -> Any:
    """The plan of exact balanced transport, as `ot.emd`.

    Parameters
    ----------
    a, b, M
        Weights and cost, in any of POT's backends.
    log
        Also return a dict with cost, u, v, warning, result_code and certificate.
    center_dual, check_marginals, potentials_init
        As in POT.
    numItermax, numThreads
        Accepted for compatibility, without effect.

    Returns
    -------
    array, or pair of array and dict
        The plan.

    Raises
    ------
    jumbot.ArgumentError
        If the masses differ or the shapes do not match.

    Examples
    --------
    >>> emd([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    call = read(M, a, b)
    if call is None or call.histograms:
        return NotImplemented
    solution, record = _solved(call, call.b, center_dual, check_marginals, potentials_init)
    plan = call.out(solution.plan)
    return (plan, record) if log else plan


@or_pot("lp")
def emd2(
    a: Any,
    b: Any,
    M: Any,
    processes: int = 1,
    numItermax: int = 100000,
    log: bool = False,
    return_matrix: bool = False,
    center_dual: bool = True,
    numThreads: Any = 1,
    check_marginals: bool = True,
    potentials_init: Any = None,
) -> Any:
    """The cost of exact balanced transport, as `ot.emd2`, differentiable in cost and weights.

    Parameters
    ----------
    a, b, M
        Weights and cost, in any of POT's backends; `b` may hold several histograms.
    log, return_matrix
        Also return a dict, with the plan in it.
    center_dual, check_marginals, potentials_init
        As in POT.
    processes, numItermax, numThreads
        Accepted for compatibility, without effect.

    Returns
    -------
    float, or pair of float and dict
        The cost; a list for several b.

    Raises
    ------
    jumbot.ArgumentError
        If the masses differ or the shapes do not match.

    Examples
    --------
    >>> float(emd2([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]]))
    0.0
    """
    call = read(M, a, b)
    if call is None:
        return NotImplemented

    def one(target: torch.Tensor) -> Any:
        solution, record = _solved(call, target, center_dual, check_marginals, potentials_init)
        plan, nx = call.out(solution.plan), call.nx
        slopes = (x - x.mean() for x in (record["u"], record["v"]))
        cost = nx.set_gradients(call.out(solution.linear), (*call.given[1:], call.given[0]), (*slopes, plan))
        if not (log or return_matrix):
            return cost
        record["cost"] = cost
        return [cost, record | {"G": plan} if return_matrix else record]

    if call.histograms:
        return [one(call.b[:, k]) for k in range(call.b.shape[1])]
    return one(call.b)


def _solved(call: Call, b: torch.Tensor, center: bool, check: bool, start: Any) -> tuple[Solution, dict[str, Any]]:
    if not check:
        b = b * (call.a.sum() / b.sum())
    one = Call(call.nx, call.given, call.M, call.a, b)
    init = None if start is None else tuple(torch.as_tensor(np.asarray(x)).double().reshape(1, -1) for x in start)
    solution = solved(one, epsilon=0.0, start=init)
    u, v = solution.potentials
    if center:  # so that both sides have the same share of the cost, as POT centres them
        shift = ((v * b).sum() - (u * call.a).sum()) / (call.a.sum() + b.sum())
        u, v = u + shift, v - shift
    return solution, _record(call, solution, float(solution.linear), u, v)


def _record(call: Call, solution: Solution, cost: Any, u: torch.Tensor, v: torch.Tensor) -> dict[str, Any]:
    return {
        "cost": cost,
        "u": call.out(u),
        "v": call.out(v),
        "warning": None,
        "result_code": 1,  # optimal
        "certificate": of_solution(solution),
    }


_METHODS = ("sinkhorn", "sinkhorn_log")


@or_pot("partial")
def partial_wasserstein(
    a: Any, b: Any, M: Any, m: float | None = None, nb_dummies: int = 1, log: bool = False, **kwargs: Any
) -> Any:
    """The plan that moves the mass m at the least cost, as `ot.partial.partial_wasserstein`.

    There are no dummy points here, so `nb_dummies` changes nothing.  Without m POT answers, by its Lagrangian form.
    """
    call = None if m is None else read(M, a, b)
    if call is None or call.histograms or not (mass := _mass(call, m)):
        return NotImplemented
    solution = solved(call, epsilon=0.0, mass=mass)
    plan = call.out(solution.plan)
    if not log:
        return plan
    cost = call.nx.sum(call.given[0] * plan)
    return plan, _record(call, solution, cost, *solution.potentials) | {"partial_w_dist": cost}


def partial_wasserstein2(
    a: Any, b: Any, M: Any, m: float | None = None, nb_dummies: int = 1, log: bool = False, **kwargs: Any
) -> Any:
    """Its cost, as `ot.partial.partial_wasserstein2`."""
    M, a, b = (pot("utils").list_to_array(x) for x in (M, a, b))
    plan, record = partial_wasserstein(a, b, M, m, nb_dummies, log=True, **kwargs)
    cost = pot("backend").get_backend(M, plan).sum(plan * M)
    return (cost, record | {"T": plan}) if log else cost


@or_pot("partial")
def entropic_partial_wasserstein(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    m: float | None = None,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-100,
    verbose: bool = False,
    log: bool = False,
) -> Any:
    """The entropic plan that moves the mass m, as `ot.partial.entropic_partial_wasserstein`; both methods alike."""
    word("method", method, _METHODS)
    call = read(M, a, b)
    mass = None if call is None else _mass(call, m)
    if call is None or call.histograms or call.differentiable or mass == 0:
        return NotImplemented
    reg = check_positive("reg", reg)
    solution = solved(
        call,
        epsilon=reg,
        mass=mass,
        reference="ones",
        limit=max(numItermax, 1000),
        stop=max(stopThr, 1e-9),
        verbose=verbose,
    )
    plan = call.out(solution.plan)
    record = {"err": [0.0], "partial_w_dist": call.nx.sum(call.given[0] * plan), "certificate": of_solution(solution)}
    return (plan, record) if log else plan


def entropic_partial_wasserstein_logscale(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    m: float | None = None,
    numItermax: int = 1000,
    stopThr: float = 1e-100,
    verbose: bool = False,
    log: bool = False,
) -> Any:
    """As `entropic_partial_wasserstein`."""
    return entropic_partial_wasserstein(
        a, b, M, reg, m=m, method="sinkhorn_log", numItermax=numItermax, stopThr=stopThr, verbose=verbose, log=log
    )


def _mass(call: Call, m: Any) -> float:
    most = min(float(call.a.sum()), float(call.b.sum()))
    if m is None:
        return most
    mass = float(m)
    if not 0 <= mass <= most * (1 + 1e-6):
        raise ArgumentError(f"m must be a number from 0 to the smaller of the two masses, {most:g}, got {mass:g}.")
    return min(mass, most)
