"""`emd` and `emd2`: exact balanced transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from jumbot.compat.ot._pot import Call, certificate, pot, read, solved
from jumbot.transport.solution import Solution


def emd(
    a: Any, b: Any, M: Any, numItermax: int = 100000, log: bool = False, center_dual: bool = True,
    numThreads: Any = 1, check_marginals: bool = True, potentials_init: Any = None,
) -> Any:  # fmt: skip
    """The plan of exact balanced transport, as `ot.emd`: `log` holds cost, u, v, warning, result_code, certificate."""
    call = read(M, a, b)
    if call is None or call.histograms:
        return pot("lp").emd(
            a, b, M, numItermax=numItermax, log=log, center_dual=center_dual, numThreads=numThreads,
            check_marginals=check_marginals, potentials_init=potentials_init,
        )  # fmt: skip
    solution, record = _solved(call, call.b, center_dual, check_marginals, potentials_init)
    plan = call.out(solution.plan)
    return (plan, record) if log else plan


def emd2(
    a: Any, b: Any, M: Any, processes: int = 1, numItermax: int = 100000, log: bool = False,
    return_matrix: bool = False, center_dual: bool = True, numThreads: Any = 1, check_marginals: bool = True,
    potentials_init: Any = None,
) -> Any:  # fmt: skip
    """The cost of exact balanced transport, as `ot.emd2`, differentiable in cost and weights; a list for several b."""
    call = read(M, a, b)
    if call is None:
        return pot("lp").emd2(
            a, b, M, processes=processes, numItermax=numItermax, log=log, return_matrix=return_matrix,
            center_dual=center_dual, numThreads=numThreads, check_marginals=check_marginals,
            potentials_init=potentials_init,
        )  # fmt: skip

    def one(target: torch.Tensor) -> Any:
        solution, record = _solved(call, target, center_dual, check_marginals, potentials_init)
        plan, nx = call.out(solution.plan), call.nx
        slopes = (x - x.mean() for x in (record["u"], record["v"]))
        cost = nx.set_gradients(call.out(solution.linear), _leaves(call), (*slopes, plan))
        if not (log or return_matrix):
            return cost
        record["cost"] = cost
        return [cost, record | {"G": plan} if return_matrix else record]

    if call.histograms:
        return [one(call.b[:, k]) for k in range(call.b.shape[1])]
    return one(call.b)


def _leaves(call: Call) -> tuple[Any, Any, Any]:
    M, a, b = call.given
    return a, b, M


def _solved(
    call: Call, b: torch.Tensor, center: bool, check: bool, start: Any
) -> tuple[Solution, dict[str, Any]]:  # fmt: skip
    if not check:
        b = b * (call.a.sum() / b.sum())
    one = Call(call.nx, call.given, call.M, call.a, b)
    init = None if start is None else tuple(torch.as_tensor(np.asarray(x)).double().reshape(1, -1) for x in start)
    solution = solved(one, epsilon=0.0, start=init)
    u, v = solution.potentials
    if center:  # so that both sides have the same share of the cost, as POT centres them
        shift = ((v * b).sum() - (u * call.a).sum()) / (call.a.sum() + b.sum())
        u, v = u + shift, v - shift
    record = {
        "cost": float(solution.linear),
        "u": call.out(u),
        "v": call.out(v),
        "warning": None,
        "result_code": 1,  # optimal
        "certificate": certificate(solution),
    }
    return solution, record
