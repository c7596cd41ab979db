"""What the run shows about the libraries that are off: a sentence is printed only where its check holds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.agreement.compare import (
    OFF,
    Row,
    product_dual_at_shifted_potentials,
    value_without_mass_terms,
)
from benchmarks.agreement.problems import Problem

Results = list[tuple[Problem, list[Row]]]


def findings(results: Results) -> list[str]:
    """One sentence a finding, naming the problems where it was seen."""
    return [
        *_pot_value(results),
        *_pot_underflow(results),
        *_stabilized(results),
        *_ott_value(results),
        *_early(results),
    ]


def _rows(results: Results, prefix: str) -> Iterator[tuple[Problem, Row]]:
    return ((p, row) for p, rows in results for row in rows if row.solver.startswith(prefix))


def _close(x: float, y: float) -> bool:
    return abs(x - y) <= 1e-5 * max(1.0, abs(x))


def _where(titles: list[str]) -> str:
    return "; ".join(dict.fromkeys(titles))


def _pot_value(results: Results) -> Iterator[str]:
    seen = [
        p.title
        for p, row in _rows(results, "POT")
        if row.value_error > OFF and _close(row.answer.value, value_without_mass_terms(p, row.answer.plan))
    ]
    if seen:
        yield (
            "**POT's `value` of an entropic unbalanced problem leaves out the mass terms.** It equals the objective "
            "with each KL(x | y) replaced by sum x log(x / y), checked to five digits, which is 0 at the optimum. "
            f"The plan is not affected; evaluate the objective at it. Seen in: {_where(seen)}."
        )


def _pot_underflow(results: Results) -> Iterator[str]:
    seen = []
    for p, row in _rows(results, "POT"):
        kernel = np.exp((-p.cost / p.epsilon).astype(p.dtype)) * np.outer(p.a, p.b).astype(p.dtype)
        tiny = np.finfo(p.dtype).tiny
        if (
            row.relative_gap > OFF
            and row.mass < 0.1
            and (kernel.max(0).min() < tiny or kernel.max(1).min() < tiny)
        ):
            seen.append(f"{p.title} ({p.dtype}, epsilon = {p.epsilon:g}, mass {row.mass:.1e})")
    if seen:
        yield (
            "**POT's scaling iterations return a plan of almost no mass when exp(-C / epsilon) underflows**: a whole "
            f"row or column of it is zero in the dtype given. Seen in: {_where(seen)}."
        )


def _stabilized(results: Results) -> Iterator[str]:
    rows = list(_rows(results, "POT, stabilized"))
    seen = [f"{p.title} ({row.relative_gap:.0e})" for p, row in rows if row.relative_gap > OFF]
    if seen:
        yield (
            f"**POT's `sinkhorn_stabilized` is off on {len(seen)} of {len(rows)} problems** by more than {OFF:g} in "
            f"relative gap, after up to 100,000 iterations: {_where(seen)}."
        )


def _ott_value(results: Results) -> Iterator[str]:
    seen = [
        p.title
        for p, row in _rows(results, "OTT-JAX")
        if row.value_error > OFF
        and not p.balanced
        and _close(row.answer.value, product_dual_at_shifted_potentials(p, row.answer))
    ]
    if seen:
        yield (
            "**OTT-JAX's `reg_ot_cost` of an unbalanced problem is the value of another problem.** Its iterations "
            "solve the one with the reference of ones; the value is the dual of the one with the product reference "
            "(for the cost that it was given), at potentials shifted by epsilon log a and epsilon log b, which "
            "are not optimal there; checked to five digits. The plan is right. "
            f"Seen in: {_where(seen)}."
        )


def _early(results: Results) -> Iterator[str]:
    """Default stopping rules, where the same library goes on to the optimum when told to."""
    for default, more in (("POT", "POT, told to go on"), ("OTT-JAX", "OTT-JAX, told to go on")):
        seen = []
        for p, rows in results:
            gaps = {row.solver: row.relative_gap for row in rows}
            if default in gaps and gaps[default] > 1e-6 and gaps[more] < gaps[default] / 10:
                seen.append(f"{p.title} ({gaps[default]:.0e}, then {gaps[more]:.0e})")
        if seen:
            yield (
                f"**{default}'s default stopping rule leaves a relative gap above 1e-6**, and more iterations close "
                f"it: {_where(seen)}."
            )
    seen = [
        f"{p.title} ({row.relative_gap:.0e})"
        for p, row in _rows(results, "GeomLoss, 100")
        if row.relative_gap > 1e-6
    ]
    if seen:
        yield (
            "**GeomLoss's annealing reaches the target temperature in its last step only**, so its accuracy is set "
            f"by `max_iter`, which has no default; at 100, as in its documentation: {_where(seen)}."
        )
