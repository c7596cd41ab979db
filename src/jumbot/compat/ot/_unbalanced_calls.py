"""`ot.unbalanced`: entropic and exact unbalanced transport with KL."""

from __future__ import annotations

import math
import warnings
from typing import Any

from jumbot._base.options import check_positive, check_word
from jumbot.compat.ot._pot import (
    Call,
    differs,
    or_pot,
    pair,
    pot,
    read,
    scalings,
    solved,
    with_gradients,
    word,
)
from jumbot.transport._certify import of_solution
from jumbot.transport._solution import Solution

_METHODS = ("sinkhorn", "sinkhorn_stabilized", "sinkhorn_translation_invariant", "sinkhorn_reg_scaling")
_COSTS = ("linear", "total")


@or_pot("unbalanced")
def sinkhorn_unbalanced(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    reg_m: Any,
    method: str = "sinkhorn",
    reg_type: str = "kl",
    c: Any = None,
    warmstart: Any = None,
    numItermax: int = 1000,
    stopThr: float = 1e-6,
    verbose: bool = False,
    log: bool = False,
    **kwargs: Any,
) -> Any:
    """The plan of entropic unbalanced transport, as `ot.unbalanced.sinkhorn_unbalanced`.

    Parameters
    ----------
    a, b, M, reg, reg_m
        Weights, cost, strength of the entropy, and of the marginal penalties (a number or a pair).
    method
        POT's methods all solve the same problem, and one solver answers them.
    reg_type, c
        The reference of the entropy, as in POT.
    warmstart, numItermax, stopThr, verbose, **kwargs
        As in POT.
    log
        Also return a dict with err, logu, logv, cost, total_cost and certificate.

    Returns
    -------
    array, or pair of array and dict
        The plan; the costs where `b` holds several histograms.

    Raises
    ------
    jumbot.ArgumentError
        If the method or the reference is unknown.

    Examples
    --------
    >>> cost = [[0.0, 1.0], [1.0, 0.0]]
    >>> sinkhorn_unbalanced([0.5, 0.5], [0.5, 0.5], cost, 1.0, 1.0).shape
    (2, 2)
    """
    if word("method", method, _METHODS) == "sinkhorn_stabilized":
        differs("stabilised")
    found = _solved(a, b, M, reg, reg_m, reg_type, c, warmstart, limit=numItermax, stop=stopThr, verbose=verbose)
    if found is None:
        return NotImplemented
    call, solution, c = found
    out = call.out(solution.linear) if call.histograms else plan_of(call, solution, c is None)
    return (out, _record(call, solution, c)) if log else out


def sinkhorn_knopp_unbalanced(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    reg_m: Any,
    reg_type: str = "kl",
    c: Any = None,
    warmstart: Any = None,
    numItermax: int = 1000,
    stopThr: float = 1e-6,
    verbose: bool = False,
    log: bool = False,
    **kwargs: Any,
) -> Any:
    """As `sinkhorn_unbalanced`."""
    return sinkhorn_unbalanced(
        a, b, M, reg, reg_m, "sinkhorn", reg_type, c, warmstart, numItermax, stopThr, verbose, log
    )


def sinkhorn_stabilized_unbalanced(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    reg_m: Any,
    reg_type: str = "kl",
    c: Any = None,
    warmstart: Any = None,
    tau: float = 1e5,
    numItermax: int = 1000,
    stopThr: float = 1e-6,
    verbose: bool = False,
    log: bool = False,
    **kwargs: Any,
) -> Any:
    """As `sinkhorn_unbalanced`; POT's own loses the problem where it absorbs its scalings (at more than `tau`)."""
    return sinkhorn_unbalanced(
        a, b, M, reg, reg_m, "sinkhorn_stabilized", reg_type, c, warmstart, numItermax, stopThr, verbose, log
    )


def sinkhorn_unbalanced2(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    reg_m: Any,
    method: str = "sinkhorn",
    reg_type: str = "kl",
    c: Any = None,
    warmstart: Any = None,
    returnCost: str = "linear",
    numItermax: int = 1000,
    stopThr: float = 1e-6,
    verbose: bool = False,
    log: bool = False,
    **kwargs: Any,
) -> Any:
    """The cost of entropic unbalanced transport, as `ot.unbalanced.sinkhorn_unbalanced2`.

    Parameters
    ----------
    a, b, M, reg, reg_m
        Weights, cost, strength of the entropy, and of the marginal penalties.
    method, reg_type, c, warmstart, numItermax, stopThr, verbose, log, **kwargs
        As in `sinkhorn_unbalanced`.
    returnCost
        "linear" for <P, M>, "total" for the whole objective.

    Returns
    -------
    float, or pair of float and dict
        The cost; one per histogram.

    Raises
    ------
    jumbot.ArgumentError
        If the method, the reference or `returnCost` is unknown.

    Examples
    --------
    >>> cost = [[0.0, 1.0], [1.0, 0.0]]
    >>> float(sinkhorn_unbalanced2([0.5, 0.5], [0.5, 0.5], cost, 1.0, 1.0)) > 0
    True
    """
    check_word("returnCost", returnCost, _COSTS)
    array = pot("utils").list_to_array(b)
    if array.ndim > 1:
        if reg_type == "kl":
            warnings.warn("reg_type: several histograms are solved with 'entropy', as by POT.", stacklevel=2)
        return sinkhorn_unbalanced(
            a, b, M, reg, reg_m, method, reg_type, c, warmstart, numItermax, stopThr, verbose, log, **kwargs
        )
    _, record = sinkhorn_unbalanced(
        a, b, M, reg, reg_m, method, reg_type, c, warmstart, numItermax, stopThr, verbose, True, **kwargs
    )
    if returnCost == "total":
        differs("total_cost")
    cost = record["cost" if returnCost == "linear" else "total_cost"]
    return (cost, record) if log else cost


@or_pot("unbalanced")
def mm_unbalanced(
    a: Any,
    b: Any,
    M: Any,
    reg_m: Any,
    c: Any = None,
    reg: float = 0,
    div: str = "kl",
    G0: Any = None,
    numItermax: int = 1000,
    stopThr: float = 1e-15,
    verbose: bool = False,
    log: bool = False,
) -> Any:
    """The plan of unbalanced transport, as `ot.unbalanced.mm_unbalanced`; `div="l2"` is POT's own.

    `log` holds err, G (the plan alone: there are no steps), cost, total_cost, certificate.
    """
    call = read(M, a, b) if isinstance(div, str) and div.lower() == "kl" else None
    taus = pair(reg_m)
    if call is None or call.histograms or call.differentiable or not all(0 < tau < math.inf for tau in taus):
        return NotImplemented
    matrix = None if c is None or reg == 0 else call.M.new_tensor(call.nx.to_numpy(c))
    solution = solved(call, epsilon=reg, tau=taus, c=matrix, limit=max(numItermax, 1000), verbose=verbose)
    plan = call.out(solution.plan)
    if not log:
        return plan
    record = {
        "err": [0.0],
        "G": [plan],
        "cost": call.out((call.M * solution.plan).sum()),
        "total_cost": call.out(objective(solution, matrix)),
        "certificate": of_solution(solution),
    }
    return plan, record


def mm_unbalanced2(
    a: Any,
    b: Any,
    M: Any,
    reg_m: Any,
    c: Any = None,
    reg: float = 0,
    div: str = "kl",
    G0: Any = None,
    returnCost: str = "linear",
    numItermax: int = 1000,
    stopThr: float = 1e-15,
    verbose: bool = False,
    log: bool = False,
) -> Any:
    """<P, M>, or the whole objective with `returnCost="total"`, as `ot.unbalanced.mm_unbalanced2`."""
    check_word("returnCost", returnCost, _COSTS)
    _, record = mm_unbalanced(a, b, M, reg_m, c, reg, div, G0, numItermax, stopThr, verbose, True)
    cost = record["cost" if returnCost == "linear" else "total_cost"]
    return (cost, record) if log else cost


def _solved(
    a: Any, b: Any, M: Any, reg: Any, reg_m: Any, reg_type: Any, c: Any, warmstart: Any, **how: Any
) -> tuple[Call, Solution, Any] | None:
    """The call, its solution and the reference where it is a matrix; None where POT itself has to answer."""
    reg_type = word("reg_type", reg_type, ("kl", "entropy"))
    call, taus = read(M, a, b), pair(reg_m)
    differentiable_c = hasattr(c, "requires_grad") and c.requires_grad
    if call is None or differentiable_c or min(taus) <= 0 or (call.histograms and call.differentiable):
        return None
    reg = check_positive("reg", reg)
    product = reg_type == "kl" and not call.histograms
    matrix = call.M.new_tensor(call.nx.to_numpy(c)) if c is not None and product else None
    start = None
    if warmstart is not None and not call.histograms:
        logs = [call.M.new_tensor(call.nx.to_numpy(x)) for x in warmstart]
        start = (reg * logs[0]).reshape(1, -1), (reg * logs[1]).reshape(1, -1)
    solution = solved(
        call,
        epsilon=reg,
        tau=taus if math.inf not in taus or taus[0] != taus[1] else math.inf,
        reference="product" if product else "ones",
        c=matrix,
        start=start,
        **how,
    )
    return call, solution, matrix


def plan_of(call: Call, solution: Solution, product: bool = True) -> Any:
    """The plan, with gradients where the inputs have them; `product` says that the reference is not a matrix c."""
    if not call.differentiable:
        return call.out(solution.plan)
    problem = solution._problem
    taus = tuple(math.inf if side.exact else side.tau for side in (problem.source, problem.target))
    reference = product and problem.reference == "product"
    return with_gradients(solution.plan, call.given, problem.epsilon, (taus[0], taus[1]), reference)


def _record(call: Call, solution: Solution, c: Any) -> dict[str, Any]:
    logu, logv = scalings(call, solution, reference="product")
    gap = float(solution._outcome.certificate.relative_gap.max())
    record = {"err": [math.sqrt(gap)], "logu": logu, "logv": logv, "certificate": of_solution(solution)}
    if call.histograms:
        return record
    plan = plan_of(call, solution, c is None)
    record["cost"] = call.nx.sum(plan * call.given[0])
    record["total_cost"] = total_cost(call, solution, plan, c)
    return record


def total_cost(call: Call, solution: Solution, plan: Any, c: Any) -> Any:
    """The objective of POT's formula, with gradients where the inputs have them."""
    return _graphed_total(call, solution, plan, c) if call.differentiable else call.out(objective(solution, c))


def objective(solution: Solution, c: Any) -> Any:
    """That of POT's formula, in float64; its entropy is sum P log P - P, without the constant of KL(P | ones)."""
    value, problem = solution._objective[0], solution._problem
    if problem.reference == "ones":
        value = value - problem.constant
    return value if c is None else value + problem.epsilon * c.sum()


def _graphed_total(call: Call, solution: Solution, plan: Any, c: Any) -> Any:
    """The same in torch's operations, differentiable as the plan is."""
    M, a, b = call.given
    problem = solution._problem

    def divergence(p: Any, q: Any) -> Any:
        return (p * ((p + (p == 0)) / q).log() * (p > 0) - p + q).sum()

    if c is None and problem.reference == "ones":
        entropy = (plan * (plan + (plan == 0)).log() - plan).sum()
    else:
        entropy = divergence(plan, c if c is not None else a[:, None] * b)
    total = (plan * M).sum() + problem.epsilon * entropy
    for side, sums, weights in ((problem.source, plan.sum(1), a), (problem.target, plan.sum(0), b)):
        if not side.exact:
            total = total + side.tau * divergence(sums, weights)
    return total
