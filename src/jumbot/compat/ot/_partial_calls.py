"""`ot.partial`: transport of a given mass."""

from __future__ import annotations

from typing import Any

import torch

from jumbot.compat.ot._pot import Call, certificate, pot, read, solved
from jumbot.errors import ArgumentError, suggest
from jumbot.transport.checks import check_number
from jumbot.transport.solution import Solution

_METHODS = ("sinkhorn", "sinkhorn_log")


def partial_wasserstein(
    a: Any, b: Any, M: Any, m: float | None = None, nb_dummies: int = 1, log: bool = False, **kwargs: Any
) -> Any:
    """The plan that moves the mass m at the least cost, as `ot.partial.partial_wasserstein`.

    There are no dummy points here, so `nb_dummies` changes nothing.  Without m POT answers, by its Lagrangian form.
    """
    call = None if m is None else read(M, a, b)
    if call is None or call.histograms:
        return pot("partial").partial_wasserstein(a, b, M, m=m, nb_dummies=nb_dummies, log=log, **kwargs)
    mass = _mass(call, m)
    if mass == 0:
        return pot("partial").partial_wasserstein(a, b, M, m=m, nb_dummies=nb_dummies, log=log, **kwargs)
    solution = solved(call, epsilon=0.0, mass=mass)
    plan = call.out(solution.plan)
    return (plan, _record(call, solution, plan)) if log else plan


def partial_wasserstein2(
    a: Any, b: Any, M: Any, m: float | None = None, nb_dummies: int = 1, log: bool = False, **kwargs: Any
) -> Any:
    """Its cost, as `ot.partial.partial_wasserstein2`."""
    M, a, b = (pot("utils").list_to_array(x) for x in (M, a, b))
    plan, record = partial_wasserstein(a, b, M, m, nb_dummies, log=True, **kwargs)
    cost = pot("backend").get_backend(M, plan).sum(plan * M)
    return (cost, record | {"T": plan}) if log else cost


def entropic_partial_wasserstein(
    a: Any, b: Any, M: Any, reg: float, m: float | None = None, method: str = "sinkhorn", numItermax: int = 1000,
    stopThr: float = 1e-100, verbose: bool = False, log: bool = False,
) -> Any:  # fmt: skip
    """The entropic plan that moves the mass m, as `ot.partial.entropic_partial_wasserstein`; both methods alike."""
    if not isinstance(method, str) or method.lower() not in _METHODS:
        raise ArgumentError(f"method: {method!r} is not known; {suggest(method, _METHODS)}")
    call = read(M, a, b)
    mass = None if call is None else _mass(call, m)
    if call is None or call.histograms or call.differentiable or mass == 0:
        # POT 0.9.6 has no `method`
        by = {} if method == "sinkhorn" else {"method": method}
        return pot("partial").entropic_partial_wasserstein(
            a, b, M, reg, m=m, numItermax=numItermax, stopThr=stopThr, verbose=verbose, log=log, **by
        )
    reg = check_number("reg", reg, least=0, strict=True)
    solution = solved(
        call, epsilon=reg, mass=mass, reference="ones", limit=max(numItermax, 1000), stop=max(stopThr, 1e-9),
        verbose=verbose,
    )  # fmt: skip
    plan = call.out(solution.plan)
    record = {"err": [0.0], "partial_w_dist": call.nx.sum(call.given[0] * plan), "certificate": certificate(solution)}
    return (plan, record) if log else plan


def entropic_partial_wasserstein_logscale(
    a: Any, b: Any, M: Any, reg: float, m: float | None = None, numItermax: int = 1000, stopThr: float = 1e-100,
    verbose: bool = False, log: bool = False,
) -> Any:  # fmt: skip
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


def _record(call: Call, solution: Solution, plan: Any) -> dict[str, Any]:
    u, v = (x if isinstance(x, torch.Tensor) else torch.from_numpy(x) for x in solution.potentials)
    cost = call.nx.sum(call.given[0] * plan)
    return {
        "cost": cost, "u": call.out(u), "v": call.out(v), "warning": None, "result_code": 1, "partial_w_dist": cost,
        "certificate": certificate(solution),
    }  # fmt: skip
