"""What the run shows about the libraries that are off: a sentence is printed only where its check holds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.agreement import compare, divergence
from benchmarks.agreement.compare import OFF, Row
from benchmarks.agreement.problems import Problem

Results = list[tuple[Problem, list[Row]]]


def findings(results: Results) -> list[str]:
    """One sentence a finding, naming the problems where it was seen."""
    parts = (_pot_value, _pot_underflow, _stabilized, _ott_value, _early, _annealing)
    return [sentence for part in parts for sentence in part(results)]


def divergence_findings(rows: list[divergence.Row]) -> list[str]:
    """The gradient of `SamplesLoss`: what the default scaling leaves, and what no scaling removes."""
    found = []
    peers = [row for row in rows if row.solver.startswith("GeomLoss")]
    default = [row for row in peers if "default" in row.solver and row.gradient_error > 0.01]
    if default:
        found.append(
            "**GeomLoss's `SamplesLoss` at its default scaling leaves "
            f"{100 * default[0].gradient_error:.0f} % error in the gradient** of the Sinkhorn divergence "
            "(last table): its temperature falls by a constant factor per step, and the potentials lag behind."
        )
    factor = (divergence.TAU + divergence.EPSILON / 2) / (divergence.TAU + divergence.EPSILON)
    if peers and abs(peers[-1].length - factor) < 1e-4:
        found.append(
            "**Its unbalanced gradient tends to (tau + epsilon/2) / (tau + epsilon) times the true one** as "
            f"the scaling tends to 1: here {factor:.5f}, and {peers[-1].length:.5f} is measured at "
            f"{peers[-1].solver.split(', ')[1]}, where the value is right."
        )
    return found


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
        if row.value_error > OFF
        and row.relative_gap <= OFF
        and _close(row.answer.value, compare.value_without_mass_terms(p, row.answer.plan))
    ]
    if seen:
        yield (
            "**POT's `value` of an entropic unbalanced problem leaves out the mass terms.** It equals the "
            "objective with each KL(x | y) replaced by sum x log(x / y), checked to five digits, which is 0 "
            f"at the optimum. The plan is right; evaluate the objective at it. Seen in: {_where(seen)}."
        )


def _pot_underflow(results: Results) -> Iterator[str]:
    seen = []
    for p, row in _rows(results, "POT"):
        kernel = np.exp((-p.cost / p.epsilon).astype(p.dtype)) * np.outer(p.a, p.b).astype(p.dtype)
        vanishes = min(kernel.max(0).min(), kernel.max(1).min()) < np.finfo(p.dtype).tiny
        if row.relative_gap > OFF and row.mass < 0.1 and vanishes:
            seen.append(f"{p.title} ({p.dtype}, epsilon = {p.epsilon:g}, mass {row.mass:.1e})")
    if seen:
        yield (
            "**POT's scaling iterations return a plan of almost no mass when exp(-C / epsilon) underflows** "
            f"in a whole row or column. Seen in: {_where(seen)}."
        )


def _stabilized(results: Results) -> Iterator[str]:
    rows = list(_rows(results, "POT, stabilized"))
    seen = [
        f"{p.title} (mass {row.mass:.2g}, the optimum has {_best_mass(results, p):.2g})"
        for p, row in rows
        if not row.relative_gap <= OFF
    ]
    if seen:
        yield (
            f"**POT's `sinkhorn_stabilized` is wrong on {len(seen)} of {len(rows)} problems**, exactly those that it "
            f"is meant for: {_where(seen)}."
        )


def _best_mass(results: Results, problem: Problem) -> float:
    rows = next(rows for p, rows in results if p is problem)
    return min(rows, key=lambda row: row.objective if np.isfinite(row.objective) else np.inf).mass


def _ott_value(results: Results) -> Iterator[str]:
    seen = [
        p.title
        for p, row in _rows(results, "OTT-JAX")
        if row.value_error > OFF
        and not p.balanced
        and _close(row.answer.value, compare.product_dual_at_shifted_potentials(p, row.answer))
    ]
    if seen:
        yield (
            "**OTT-JAX's `reg_ot_cost` of an unbalanced problem is the value of another problem.** Its "
            "iterations solve the one with the reference of ones; the value is the dual of the one with the "
            "product reference (for the cost that it was given), at potentials shifted by epsilon log a and "
            "epsilon log b, which are not optimal there; checked to five digits. The plan is right; evaluate "
            f"the objective at it. Seen in: {_where(seen)}."
        )


def _early(results: Results) -> Iterator[str]:
    """Default stopping rules, where the same library goes on to the optimum when told to."""
    for default, more in (("POT", "POT, tighter tolerance"), ("OTT-JAX", "OTT-JAX, tighter tolerance")):
        seen = []
        for p, rows in results:
            gaps = {row.solver: row.relative_gap for row in rows}
            if default in gaps and gaps[default] > 1e-6 and gaps[more] < gaps[default] / 10:
                seen.append(f"{p.title} ({gaps[default]:.0e})")
        if seen:
            yield (
                f"**{default}'s default stopping rule leaves a relative gap above 1e-6**, which more "
                f"iterations close: {_where(seen)}."
            )


def _annealing(results: Results) -> Iterator[str]:
    rows = list(_rows(results, "GeomLoss, 100 steps"))
    seen = [f"{p.title} ({row.relative_gap:.0e})" for p, row in rows if row.relative_gap > 1e-6]
    if seen:
        yield (
            "**GeomLoss's annealing reaches the target temperature in its last step only**, so its accuracy "
            "is set by `max_iter`, which has no working default; at 100, as in its documentation, the "
            f"relative gap is above 1e-6 in: {_where(seen)}."
        )
