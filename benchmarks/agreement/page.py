"""The page as Markdown."""

from __future__ import annotations

import math

from benchmarks.agreement import divergence
from benchmarks.agreement.compare import Row
from benchmarks.agreement.findings import Results, divergence_findings, findings
from benchmarks.agreement.problems import SEED, Problem
from benchmarks.peers import versions

INTRODUCTION = """# Agreement with other libraries

The same problems, solved by jumbot, POT, OTT-JAX, GeomLoss and a convex solver (Clarabel through CVXPY):

$$
\\min_{P \\ge 0}\\; \\langle C, P \\rangle + \\varepsilon\\, \\mathrm{KL}(P \\mid R)
  + \\tau_a \\mathrm{KL}(P \\mathbf 1 \\mid a) + \\tau_b \\mathrm{KL}(P^\\top \\mathbf 1 \\mid b)
$$

*Value* is what the library reports. *Objective* is the formula above, evaluated at its plan in float64 by
independent code (`benchmarks/certify.py`; if a marginal is exact, the plan is first rounded to it).
*Relative gap* is the distance of this objective from the largest lower bound that any of the libraries'
potentials prove, divided by $\\langle |C|, P \\rangle$ + the penalties + $\\varepsilon$ mass. Libraries that solve
the same problem to the end agree in mass, value and objective. The mass is the least accurate of them: its
error is of the order of the square root of the gap.
"""

CONVERSIONS = """## Conversions

**jumbot.** This page uses its conventions.

    jumbot.solve(C, a, b, epsilon=eps, tau=(tau_a, tau_b), reference="product")  # or "ones"

**POT.** Its `c` is the reference and defaults to $a b^\\top$; `unbalanced` is tau, which may be infinite on
one side; leave it out if both are. Potentials are $f = \\varepsilon \\log u$; a balanced problem's contain
the weights, $f = \\varepsilon (\\log u - \\log a)$. Its reported value of unbalanced entropic problems
cannot be converted (see above); evaluate the objective at its plan.

    ot.solve(C, a, b, reg=eps, c=None, reg_type="KL", unbalanced=(tau_a, tau_b))  # c=np.ones_like(C)

**OTT-JAX.** Its tau is $\\tau / (\\tau + \\varepsilon)$, 1 for an exact marginal. Its unbalanced
reference is the all-ones matrix, so the product reference needs the cost $C - \\varepsilon \\log(a
b^\\top)$. A balanced problem needs no change of cost, and $f - \\varepsilon \\log a$ is its potential.

    geom = Geometry(cost_matrix=C - eps * jnp.log(jnp.outer(a, b)), epsilon=eps)  # C itself for "ones"
    out = Sinkhorn()(LinearProblem(geom, a, b, tau_a=tau_a / (tau_a + eps), tau_b=tau_b / (tau_b + eps)))

**GeomLoss.** `geomloss.ot.solve` has the product reference and one tau for both sides; for ones pass $C +
\\varepsilon \\log(a b^\\top)$ and add $\\varepsilon (n m - m_a m_b)$ to the value, $m_a$ and $m_b$ the
masses.

    geomloss.ot.solve(C, a=a, b=b, reg=eps, unbalanced=tau, max_iter=10_000)

`SamplesLoss("sinkhorn", p=2)` has the cost $|x - y|^2 / 2$, $\\varepsilon$ = blur$^2$ and $\\tau$ =
reach$^2$: half of jumbot's value for $|x - y|^2$ at $2 \\varepsilon$ and $2 \\tau$.

    geomloss.SamplesLoss("sinkhorn", p=2, blur=eps**0.5, reach=tau**0.5)(x, y)
    jumbot.sinkhorn_divergence(x, y, epsilon=2 * eps, tau=2 * tau) / 2

**CVXPY.** The formula itself; `cp.kl_div(x, y)` is $x \\log(x / y) - x + y$.

    cp.sum(cp.multiply(C, P)) + eps * cp.sum(cp.kl_div(P, R)) + tau_a * cp.sum(cp.kl_div(rows, a)) + ...
"""


def page(results: Results, divergence_rows: list[divergence.Row], absent: list[str], date: str) -> str:
    """The whole page."""
    used = ", ".join(f"{name} {v}" for name, v in versions().items() if v != "absent")
    lines = [
        INTRODUCTION,
        f"Made on {date} by `python -m benchmarks.agreement`; seed {SEED}, 12 points against 10; {used}.",
        "",
    ]
    if absent:
        lines += [f"Not installed, so left out: {', '.join(absent)}.", ""]
    lines += ["## What differs, and why", ""]
    found = [*findings(results), *divergence_findings(divergence_rows)]
    lines += [f"- {finding}" for finding in found] or ["Nothing."]
    lines += ["", CONVERSIONS, "## The problems", ""]
    for problem, rows in results:
        lines += [_heading(problem), "", *_table(rows), ""]
    lines += [*_divergence_table(divergence_rows), ""]
    return "\n".join(lines)


def _heading(p: Problem) -> str:
    tau = " and ".join(dict.fromkeys("infinite" if math.isinf(t) else f"{t:g}" for t in p.tau))
    title = p.title[0].upper() + p.title[1:]
    return f"### {title}\n\nepsilon = {p.epsilon:g}, tau {tau}, reference {p.reference}, {p.dtype}"


def _table(rows: list[Row]) -> list[str]:
    lines = ["| | mass | value | objective | relative gap | |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    lines += [
        f"| {row.solver} | {row.mass:.5g} | {row.answer.value:.7g} | {row.objective:.7g} "
        f"| {_gap(row.relative_gap)} | {row.remark} |"
        for row in rows
    ]
    return lines


def _gap(gap: float) -> str:
    return "< 1e-12" if gap < 1e-12 else f"{gap:.0e}"


def _divergence_table(rows: list[divergence.Row]) -> list[str]:
    d = divergence
    return [
        "### Sinkhorn divergence",
        "",
        f"epsilon = {d.EPSILON:g}, tau = {d.TAU:g} for the cost |x - y|^2 / 2, {d.POINTS} points in the "
        f"plane, seed {d.SEED}; the gradient is compared with plain log-domain iterations run to rounding. "
        "*Length* is that of its projection on the true gradient, which should be 1.",
        "",
        "| | value | relative error of the gradient | length |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {r.solver} | {r.value:.7g} | {r.gradient_error:.1e} | {r.length:.5f} |" for r in rows),
    ]
