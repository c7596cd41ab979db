"""A semi-smooth Newton method on the dual, for problems on which sweeps are slow.

With Phi(g) the sweep (f from g, then g from f), a fixed point solves g = Phi(g), and Phi has the Jacobian D_b Q' D_a P,
where P and Q are the row- and column-normalised plans and D the slopes of the proximal steps. A step is only taken if
it raises the dual more than a plain sweep, so the method inherits the global convergence of sweeps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from jumbot.transport._certificate import certify
from jumbot.transport._marginal import Marginal
from jumbot.transport._outcome import Outcome, Start
from jumbot.transport._problem import Problem

#: Where groups of points hardly exchange mass the Jacobian is nearly singular: damp it, and search far along it.
_DAMPINGS = (0.0, 1e-6, 1e-3)
_LENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)
LARGEST = 1024  # points on the smaller side: a step factorises a matrix of that size
PATIENCE = 30
_STEPS = 5  # between two certificates


def fits(problem: Problem) -> bool:
    n, m = problem.cost.shape[-2:]
    return min(n, m) <= LARGEST and n * m <= 4 * LARGEST**2


def _soft(problem: Problem, g: Tensor, rows: bool) -> tuple[Tensor, Tensor]:
    """The soft minimum over the other side, and the log of its plan normalised."""
    r_a, r_b = problem.reference_weights
    o_a, o_b = problem.offsets
    cost, reference, offset = (problem.cost, r_b, o_a) if rows else (problem.cost.mT, r_a, o_b)
    x = (g[:, None, :] - cost) / problem.epsilon + torch.log(reference)[:, None, :]
    total = torch.logsumexp(x, -1)
    return offset - problem.epsilon * total, x.sub_(total[..., None])


def _half(problem: Problem, g: Tensor, rows: bool) -> tuple[Tensor, Tensor, Tensor]:
    side, weights = problem.sides[0 if rows else 1]
    soft, normalised = _soft(problem, g, rows)
    return side.step(soft, weights, problem.epsilon), soft, normalised


def half_sweep(problem: Problem, g: Tensor, rows: bool) -> Tensor:
    """The best potential of the rows, or of the columns, given that of the others."""
    return _half(problem, g, rows)[0]


def _semi_dual(problem: Problem, g: Tensor) -> Tensor:
    """The dual at (best f for g, g)."""
    f, soft, _ = _half(problem, g, rows=True)
    p = torch.where(torch.isneginf(soft), 0.0, problem.a * torch.exp((f - soft) / problem.epsilon))
    value = problem.source.dual(f, problem.a) + problem.target.dual(g, problem.b) - problem.epsilon * p.sum(-1)
    return torch.nan_to_num(value, nan=-torch.inf)


def _clip(side: Marginal, g: Tensor) -> Tensor:
    """Back into the domain of the dual, -g/tau <= recession."""
    return g.clamp_min(-side.tau * side.divergence.recession)


def _solve(matrices: Tensor, right: Tensor) -> Tensor:
    """x with M x = r for each of a batch; not finite where M is singular."""
    if matrices.device.type != "cpu":
        return torch.linalg.solve_ex(matrices, right[..., None])[0][..., 0]
    # one at a time: batches of 300 points on several threads fail in MKL 2024.2 ("Pivots given to lu_solve ...")
    return torch.stack([torch.linalg.solve_ex(M, r)[0] for M, r in zip(matrices, right, strict=True)])


def newton(problem: Problem, f: Tensor, g: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """At most `steps` steps from (f, g); stops when no step improves the dual."""
    exact = problem.source.exact and problem.target.exact
    identity = torch.eye(g.shape[-1], dtype=g.dtype, device=g.device)
    absent = torch.isneginf(g)
    g = torch.where(absent, 0.0, g)
    for _ in range(steps):
        f, soft_a, P = _half(problem, g, rows=True)
        h, soft_b, Q = _half(problem, torch.where(torch.isneginf(f), -1e300, f), rows=False)
        h = torch.where(torch.isneginf(h), 0.0, h)
        D_a = problem.source.slope(soft_a, problem.a, problem.epsilon).nan_to_num(0.0)
        D_b = problem.target.slope(soft_b, problem.b, problem.epsilon).nan_to_num(0.0)
        jacobian = identity - D_b @ Q.exp_() @ D_a @ P.exp_()
        if exact:  # the constant vector is in the null space; any representative will do
            jacobian = jacobian + 1 / g.shape[-1]
        before, best, best_value = _semi_dual(problem, g), h, _semi_dual(problem, h)
        for damping in _DAMPINGS:
            direction = _solve(jacobian + damping * identity, h - g)
            direction = torch.where(torch.isfinite(direction), direction, h - g)
            for length in _LENGTHS:
                candidate = _clip(problem.target, g + length * direction)
                value = _semi_dual(problem, candidate)
                # at convergence the dual cannot resolve the step, but the full step still squares the error
                slack = 1e-15 * best_value.abs() if length == 1 and damping == 0 else 0.0
                better = value > best_value - slack
                best = torch.where(better[:, None], candidate, best)
                best_value = torch.where(better, value, best_value)
                if length == 1 and damping == 0 and bool(better.all()):
                    break
            else:
                continue
            break
        moved = (best - g).abs().amax(-1)
        g = best
        if bool(((best_value <= before) & (moved <= 1e-14 * (1 + g.abs().amax(-1)))).all()):
            break
    f, _, _ = _half(problem, torch.where(absent, -torch.inf, g), rows=True)
    return f, torch.where(absent, -torch.inf, g)


def sweep(problem: Problem, start: Start | None, tol: float, limit: int, price: Tensor) -> Outcome:
    """At most `limit` steps from `start`, for each problem while they help and are needed."""
    assert start is not None, "it begins where sweeps have ended"
    f, g = (x.clone() for x in start)
    taken, certificate = torch.zeros_like(f[:, 0]), certify(problem, f, g)
    active = torch.nonzero(~(certificate.relative_gap <= tol))[:, 0]
    for _ in range(limit // _STEPS):
        if active.numel() == 0:
            break
        part = problem.take(active)
        new_f, new_g = newton(part, f[active], g[active], _STEPS)
        after = certify(part, new_f, new_g)
        better = after.relative_gap < certificate.relative_gap[active]
        taken[active] += _STEPS
        active = active[better]
        f[active], g[active] = new_f[better], new_g[better]
        certificate.put(active, after, better)
        active = active[~(certificate.relative_gap[active] <= tol)]
    return Outcome(f, g, taken, certificate)
