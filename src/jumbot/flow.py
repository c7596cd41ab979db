"""Gradient flows: a cloud of points moves down a minibatch transport loss.

Profiled at m = 64 (unbalanced), the sweeps of a step's three problems are .15 of its .4 ms and calls into Python the
rest; autograd through `sinkhorn_divergence` takes three times as long.  So gradients of the named costs come in closed
form from the plans, the sweeps are called without the solver's checks, and no step touches all n points.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import Seed, check, check_non_negative, check_positive, check_whole
from jumbot._base.progress import progress
from jumbot.cost import Cost, parse_cost
from jumbot.errors import ArgumentError, NotConvergedWarning, hinting
from jumbot.minibatch._costs import Minibatches
from jumbot.minibatch._losses import Loss, Solved
from jumbot.minibatch._sampling import Points, draw_subsets
from jumbot.transport._certificate import reachable, solved
from jumbot.transport._checks import Array, called, read_clouds
from jumbot.transport._debiased import debiased, pulled
from jumbot.transport._entropic import compiled_sweeps, solver
from jumbot.transport._outcome import GAP, OBJECTIVE, SCALE, RawOutcome
from jumbot.transport._problem import Problem, make_problem
from jumbot.transport._solve import MAX_ITERATIONS, find_outcome
from jumbot.transport.divergences import Divergence

Callback = Callable[[int, Array, float], object]
_SWEEPS = 1000  # before the general solver, which has more than sweeps, takes over
_NONE = np.empty(0, dtype=np.int64)
_FAR = 1e50  # coordinates whose squares are far from overflow


@hinting
def gradient_flow(
    x0: Array,
    y: Array,
    *,
    m: int,
    k: int = 1,
    steps: int,
    learning_rate: float,
    epsilon: float,
    tau: float | tuple[float, float] = math.inf,
    loss: str = "sinkhorn_divergence",
    cost: str | Cost = "sqeuclidean",
    divergence: str | Divergence = "kl",
    seed: int = 0,
    snapshots: int | Sequence[int] = 11,
    callback: Callback | None = None,
    tol: float = 1e-6,
) -> Trajectory:
    r"""Move the points x towards the points y by explicit Euler steps on a minibatch loss.

    .. math::
        x_{I_j} \leftarrow x_{I_j} - \text{learning\_rate} \cdot \frac mk\, \nabla h(x_{I_j}, y_{J_j}),
        \qquad j = 1, \dots, k

    with h the Sinkhorn divergence or the transport loss between m points of each side.  Every step draws k new
    pairs of minibatches, without replacement inside each; points that are not drawn stay.

    Parameters
    ----------
    x0, y : arrays of shape (n, d) and (n_y, d)
        The points to move and the target, torch or numpy; neither is changed.
    m, k : int
        Points per side in a minibatch, and minibatches per step.
    steps : int
        The number of Euler steps.
    learning_rate : float
        The length of a step.
    epsilon, tau, loss, cost, divergence
        The loss h, as in `jumbot.estimate`; gradients of a callable `cost` are computed by autograd.
    seed : int, default 0
        The minibatches of step s depend on (seed, s) only.
    snapshots : int or list of int
        How many snapshots to keep, evenly spaced from start to end, or the steps after which to take them.
    callback : callable, optional
        Called as `callback(steps_done, points, loss)` after each step, with a copy of the points.
    tol : float, default 1e-6
        Bound on the relative gap of each minibatch problem.  The error of the gradient is of the order of its square
        root, or of the gap itself if the marginals are exact.

    Returns
    -------
    Trajectory
        The path of the points.  Ctrl-C returns the steps done so far, with `interrupted` set.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range, or the learning rate moves points to infinity.

    Examples
    --------
    >>> import numpy as np, jumbot
    >>> x0, y = np.zeros((20, 2)) + np.arange(20)[:, None] / 20, np.ones((30, 2))
    >>> flow = jumbot.gradient_flow(x0, y, m=10, steps=200, learning_rate=0.1, epsilon=0.1, tau=5.0)
    >>> flow
    Trajectory(n=20, steps=200, snapshots=11, loss 0.745 -> 0.000)
    """
    numpy = not isinstance(x0, Tensor)
    x0, y, batch = (z.detach() if isinstance(z, Tensor) else z for z in read_clouds(x0, y, ("x0", "y")))
    if x0.ndim != 2 or y.ndim != 2:
        raise ArgumentError(f"x0, y must have the shape (points, coordinates), got a batch of shape {tuple(batch)}.")
    epsilon, tol = check_non_negative("epsilon", epsilon), check_non_negative("tol", tol)
    rate = check_positive("learning_rate", learning_rate)
    m, k, seed = check_whole("m", m, least=1), check_whole("k", k, least=1), check("seed", seed, Seed)
    h = Loss(loss, epsilon, tau, divergence, tol=tol)
    flow = _Flow(x0.to(torch.float64, copy=True), y.double(), cost, h, m=m, k=k, rate=rate, seed=seed)
    steps = check_whole("steps", steps, least=1)
    if callback is not None and not callable(callback):
        raise ArgumentError(f"callback must be a function or None, got {type(callback).__name__}.")
    shown = _Shown(x0, _stops(snapshots, steps), numpy)
    losses, interrupted = _run(flow, steps, shown, callback)
    if flow.short:
        warnings.warn(
            f"{flow.short} minibatch problems stopped above tol = {tol:g}; the points still moved by their gradients.",
            NotConvergedWarning,
            stacklevel=3,  # past `hinting`
        )
    settings: dict[str, Any] = {"m": m, "k": k, "steps": steps, "learning_rate": rate, "seed": seed, "tol": tol}
    settings |= {"epsilon": epsilon, "tau": tau, "loss": loss, "cost": cost, "divergence": divergence}
    return Trajectory(
        steps=np.array(shown.stops[: shown.taken], dtype=np.int64),
        snapshots=shown.out(shown.points[: shown.taken]),
        losses=np.array(losses),
        points=shown.out(flow.x),
        target=shown.out(y.clone()),
        settings=settings,
        interrupted=interrupted,
    )


class _Shown:
    """Snapshots in one array: stacking a list would need twice the memory."""

    def __init__(self, x0: Tensor, stops: list[int], numpy: bool) -> None:
        self.stops, self.numpy = stops, numpy
        self.points = x0.new_empty((len(stops), *x0.shape))
        self._places = {stop: place for place, stop in enumerate(stops)}
        self.taken = 0

    def take(self, done: int, x: Tensor) -> None:
        """Keep the points after `done` steps if a snapshot is due."""
        if done in self._places:
            self.points[self._places[done]] = x
            self.taken += 1

    def out(self, points: Tensor) -> Array:
        """In the kind and dtype of x0."""
        points = points.to(self.points.dtype)
        return points.numpy() if self.numpy else points


def _run(flow: _Flow, steps: int, shown: _Shown, callback: Callback | None) -> tuple[list[float], bool]:
    """The loss before each step, and whether Ctrl-C stopped the flow early."""
    losses: list[float] = []
    shown.take(0, flow.x)
    try:
        with progress(steps, "steps") as advance:
            for step in range(steps):
                losses.append(flow.advance(step))
                shown.take(step + 1, flow.x)
                if callback is not None:
                    callback(step + 1, shown.out(flow.x.clone()), losses[-1])
                advance(1)
    except KeyboardInterrupt:
        return losses, True
    return losses, False


@dataclass(frozen=True, repr=False)
class Trajectory:
    """The path of the points of a gradient flow, with the kind and dtype of x0.

    Attributes
    ----------
    steps : array of shape (s,)
        The steps after which snapshots were taken.
    snapshots : array of shape (s, n, d)
        The points after these steps.
    losses : array
        The minibatch loss before each step.
    points : array of shape (n, d)
        The points at the end.
    target : array
        The points y.
    settings : dict
        The arguments of the flow.
    interrupted : bool
        Whether Ctrl-C stopped the flow.
    """

    steps: np.ndarray
    snapshots: Array
    losses: np.ndarray
    points: Array
    target: Array
    settings: Mapping[str, Any]
    interrupted: bool

    @property
    def times(self) -> np.ndarray:
        """The time of each snapshot: its step times the learning rate."""
        return self.steps * self.settings["learning_rate"]

    def animate(self, path: str | Path, *, colors: Any = None, fps: int = 10, dpi: float = 100) -> Path:
        """Write the snapshots, one per frame, as a GIF, or as an MP4 if ffmpeg is installed; return the path.

        The first two coordinates are shown; `colors` are the colours of the points for matplotlib.
        """
        from jumbot.report._drawings import animate

        return animate(self, path, colors=colors, fps=fps, dpi=dpi)

    def __repr__(self) -> str:
        ends = f", loss {self.losses[0]:.3f} -> {self.losses[-1]:.3f}" if len(self.losses) else ""
        mark = ", interrupted" if self.interrupted else ""
        return (
            f"Trajectory(n={self.points.shape[0]}, steps={len(self.losses)}, snapshots={len(self.steps)}{ends}{mark})"
        )


class _Flow:
    """The points as they move, in float64."""

    def __init__(
        self, x: Tensor, y: Tensor, ground: str | Cost, loss: Loss, *, m: int, k: int, rate: float, seed: int
    ) -> None:
        self.x, self.y, self.ground, self.loss = x, y, ground, loss
        self.m, self.k, self.rate, self.seed = m, k, rate, seed
        self.short = 0
        parse_cost(ground)
        least = min(len(x), len(y))
        if m > least:
            raise ArgumentError(f"m: got {m}, but the smaller cloud has {least} points; draw at most that many.")
        # on the CPU the compiled costs read the very memory that the steps write
        self.clouds = _as_points("x0", x), _as_points("y", y)
        self.template = self._problem(x.new_zeros((k, m, m)))
        sides = self.template.source, self.template.target
        self.exact = [side.exact for side in sides]
        known = all(side.exact or not side.hard for side in sides) and compiled_sweeps.fits(self.template)
        self.quick = not callable(ground) and loss.epsilon > 0 and known

    def advance(self, step: int) -> float:
        """One Euler step; returns the loss before it, averaged over the k minibatches."""
        I = draw_subsets(self.seed, step * self.k, self.k, 0, len(self.x), self.m)
        J = draw_subsets(self.seed, step * self.k, self.k, 1, len(self.y), self.m)
        rows, columns = (torch.from_numpy(index).to(self.x.device) for index in (I, J))
        x, y = self.x[rows], self.y[columns]
        if not float(x.abs().amax()) < _FAR:
            raise ArgumentError(
                f"learning_rate: {self.rate:g} moved points to infinity by step {step}; pass a smaller one."
            )
        if callable(self.ground):
            value, gradient = self._by_autograd(x, y, self.ground)
        else:
            value, gradient = self._closed_form(x, y, Minibatches(*self.clouds, I, J, self.ground))
        self.x.index_add_(0, rows.flatten(), gradient.flatten(0, 1), alpha=-self.rate * self.m / self.k)
        return value

    def _closed_form(self, x: Tensor, y: Tensor, batch: Minibatches) -> tuple[float, Tensor]:
        """d<W, |x - y|^2>/dx = 2 (W1 x - W y) with W the plan, or the plan over twice the distance."""
        cost = batch.cost("x", "y")
        between = self._solve(cost)
        w = self._weights(between, cost)
        if self.loss.name == "transport":
            return float(between.value.mean()), 2 * pulled(w, x, y)
        cost = batch.cost("x", "x")
        within = self._solve(cost, symmetric=True), self._solve(batch.cost("y", "y"), symmetric=True)
        v = self._weights(within[0], cost)
        return _divergence(between, *within, self.loss.epsilon), 2 * pulled(w, x, y, (v + v.mT) / 2)

    def _weights(self, solved: Solved, cost: Tensor) -> Tensor:
        if self.ground == "sqeuclidean":
            return solved.plan
        return torch.where(cost > 0, solved.plan / (2 * cost), 0.0)  # at distance zero the subgradient 0

    def _by_autograd(self, x: Tensor, y: Tensor, ground: Cost) -> tuple[float, Tensor]:
        """Differentiate the costs with the plans held fixed (envelope theorem)."""

        def transport(u: Tensor, v: Tensor) -> tuple[Solved, Tensor]:
            cost = called(ground, u, v)
            solved = self._solve(cost.detach().double(), symmetric=u is v)
            return solved, torch.where(solved.plan > 0, cost * solved.plan, 0.0).sum()

        with torch.enable_grad():
            x.requires_grad_()
            between, linear = transport(x, y)
            if self.loss.name == "transport":
                value = float(between.value.mean())
            else:
                (within_x, linear_x), (within_y, _) = transport(x, x), transport(y, y)
                linear = linear - linear_x / 2
                value = _divergence(between, within_x, within_y, self.loss.epsilon)
            (gradient,) = torch.autograd.grad(linear, x)
        return value, gradient

    def _problem(self, cost: Tensor) -> Problem:
        return make_problem(cost, None, None, self.loss.terms)

    def _solve(self, cost: Tensor, symmetric: bool = False) -> Solved:
        start, swept, tol, epsilon = None, 0, self.loss.tol, self.loss.epsilon
        if self.quick:
            raw, gap = self._sweep(cost, symmetric)
            if solved(gap, raw.out[:, SCALE], tol).all():
                value = torch.from_numpy(raw.out[:, OBJECTIVE] + epsilon)
                return Solved(value, torch.from_numpy(gap), _NONE, plan=raw.plan)
            start, swept = (raw.f, raw.g), _SWEEPS
        problem = self._problem(cost)
        outcome = find_outcome(problem, start, tol, MAX_ITERATIONS, symmetric, swept)
        certificate = outcome.certificate
        unsolved = torch.nonzero(~(certificate.relative_gap <= reachable(tol, epsilon)))[:, 0].cpu().numpy()
        self.short += len(unsolved)
        return Solved(certificate.objective + problem.constant, certificate.gap, unsolved, plan=outcome.plan)

    def _sweep(self, cost: Tensor, symmetric: bool) -> tuple[RawOutcome, np.ndarray]:
        """The sweeps alone, without the solver's checks, and the gaps they leave.

        Exact marginals are met within `tol` but not rounded to, which would take several times as long.
        """
        t, tol = self.template, self.loss.tol
        problem = Problem(cost, t.a, t.b, t.epsilon, t.source, t.target, t.reference)
        price = cost.mean((-2, -1)) + t.epsilon if any(self.exact) else cost.new_zeros(self.k)
        if symmetric:
            raw = compiled_sweeps.sweep_symmetric(problem, tol, _SWEEPS, price)
        else:
            found = solver.sweep_or_anneal(problem, compiled_sweeps, None, tol, _SWEEPS, price)
            assert isinstance(found, RawOutcome)
            raw = found
        gap = raw.out[:, GAP]
        for exact, marginal in zip(self.exact, (raw.rows, raw.columns), strict=True):
            if exact:
                gap = gap + price.numpy() * np.abs(marginal - 1 / self.m).sum(-1)
        return raw, gap


def _divergence(between: Solved, x: Solved, y: Solved, epsilon: float) -> float:
    """The mean Sinkhorn divergence, from above."""
    return float(debiased(between.value, x.value - x.gap, y.value - y.gap, epsilon).mean())


def _as_points(name: str, points: Tensor) -> Points:
    return Points(name, points.numpy() if points.device.type == "cpu" else points)


def _stops(snapshots: int | Sequence[int], steps: int) -> list[int]:
    """The steps after which a snapshot is taken, in order."""
    if not isinstance(snapshots, Sequence | np.ndarray) or isinstance(snapshots, str | bytes):
        count = min(check_whole("snapshots", snapshots, least=2), steps + 1)
        return sorted({round(s) for s in np.linspace(0, steps, count)})
    stops = sorted({check_whole("snapshots", s, least=0) for s in snapshots})
    if stops and stops[-1] > steps:
        raise ArgumentError(f"snapshots: got step {stops[-1]}, but the flow ends after step {steps}.")
    return stops
