"""What people call every day, as they call it: `jumbot` at its defaults beside its peers at theirs.

    python -m benchmarks --only everyday

Costs are scaled to one, weights are uniform.  *Error* is judged without a line of jumbot (`certify.py`): the relative
gap of a plan, rounded to its marginals where they are exact; for a divergence the relative error of the gradient; at
epsilon = 0 how far the cost lies above the least that anybody found.  A peer "at gap 1e-10" has the loosest threshold
of its own with which its plan reaches what `jumbot.solve` promises by default.  Where a peer wins, the row says so.
SciPy's assignment is left out above 1,000 points: 5,000 take it a minute.
"""

from __future__ import annotations

import contextlib
import io
import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

import jumbot
from benchmarks import certify
from benchmarks.judge import divergence_gradient
from benchmarks.regimes import squared_distances
from benchmarks.timing import interleave, threads

GAP = 1e-10
_SCIPY = 1000  # points up to which SciPy's assignment is timed
_LONG = 5.0  # seconds of all calls of a row, above which each is timed once
THRESHOLDS = [10.0 ** (-k / 2) for k in range(4, 31)]


@dataclass
class Call:
    """One solver on one problem: `run` is timed, `error` judges what `answer` returns, by default what `run` does."""

    name: str
    run: Callable[[], Any]
    error: Callable[[Any], float] | None = None
    answer: Callable[[], Any] | None = None

    def judged(self) -> float | None:
        return None if self.error is None else self.error((self.answer or self.run)())


@dataclass
class Task:
    """One row: ours first, then the peers."""

    group: str
    name: str
    calls: list[Call]
    threads: int = 1
    floor: float | None = None
    against: str = ""  # the peer that the floor is about
    found: list[dict[str, Any]] = field(default_factory=list)


def cost_matrix(n: int, seed: int = 0) -> np.ndarray:
    """Squared distances between two Gaussian clouds in the plane, scaled to one."""
    rng = np.random.default_rng(seed)
    cost = squared_distances(rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + 0.5)
    return cost / cost.max()


def weights(n: int) -> np.ndarray:
    return np.full(n, 1 / n)


def ours(cost: Any, error: Callable[[Any], float] | None, **options: Any) -> Call:
    """`jumbot.solve(...).plan`, judged with its potentials."""

    def answer() -> tuple[np.ndarray, certify.Potentials]:
        solution = jumbot.solve(cost, **options)
        return np.asarray(solution.plan), tuple(map(np.asarray, solution.potentials))

    return Call("jumbot", lambda: jumbot.solve(cost, **options).plan, error, answer)


def gap_of(cost: np.ndarray, epsilon: float, tau: Any, answer: Any) -> float:
    plan, potentials = answer
    return certify.entropic_kl(cost, plan, potentials, epsilon=epsilon, tau=tau).relative_gap


def pot_balanced(cost: np.ndarray, epsilon: float, threshold: float = 1e-9) -> tuple[np.ndarray, certify.Potentials]:
    """`ot.sinkhorn`; scalings that are zero are given up as potentials."""
    import ot

    a = weights(len(cost))
    limit = 1000 if threshold == 1e-9 else 100_000
    plan, log = ot.sinkhorn(a, a, cost, epsilon, stopThr=threshold, numItermax=limit, log=True)
    with np.errstate(divide="ignore"):
        # its reference is the all-ones matrix
        f, g = (epsilon * (np.log(log[key]) - np.log(a)) for key in ("u", "v"))
    return plan, (f, g)


def pot_one_sided(cost: np.ndarray, epsilon: float, threshold: float = 1e-6) -> tuple[np.ndarray, certify.Potentials]:
    import ot

    a = weights(len(cost))
    limit = 1000 if threshold == 1e-6 else 100_000
    plan, log = ot.unbalanced.sinkhorn_unbalanced(
        a, a, cost, epsilon, (1.0, math.inf), stopThr=threshold, numItermax=limit, log=True
    )
    return plan, (epsilon * log["logu"], epsilon * log["logv"])


def tightened(call: Callable[[float], Any], error: Callable[[Any], float], patience: float) -> Callable[[], Any] | None:
    """The call at the loosest threshold that reaches the gap; None where it takes more than `patience` seconds."""
    for threshold in THRESHOLDS[::3] + THRESHOLDS[-1:]:
        begin = time.perf_counter()
        if error(call(threshold)) <= GAP:
            looser = [t for t in THRESHOLDS if threshold < t < 40 * threshold]
            reached = [t for t in looser if error(call(t)) <= GAP]
            return partial(call, max([threshold, *reached]))
        if time.perf_counter() - begin > patience:
            return None
    return None


def balanced(n: int, epsilon: float, count: int = 1) -> Task:
    cost = cost_matrix(n)
    error = partial(gap_of, cost, epsilon, math.inf)
    calls = [
        ours(cost, error, epsilon=epsilon),
        Call("POT", partial(pot_balanced, cost, epsilon), error),
    ]
    tight = tightened(partial(pot_balanced, cost, epsilon), error, 0.5)
    if tight is not None:
        calls.append(Call("POT at gap 1e-10", tight, error))
    floor = 1.5 if (n, epsilon) == (65, 0.5) else 3
    return Task("balanced", f"{n} points, epsilon {epsilon:g}", calls, count, floor, "POT")


def one_sided(n: int, epsilon: float) -> Task:
    cost, tau = cost_matrix(n), (1.0, math.inf)
    error = partial(gap_of, cost, epsilon, tau)
    calls = [
        ours(cost, error, epsilon=epsilon, tau=tau),
        Call("POT", partial(pot_one_sided, cost, epsilon), error),
    ]
    tight = tightened(partial(pot_one_sided, cost, epsilon), error, 0.5)
    if tight is not None:
        calls.append(Call("POT at gap 1e-10", tight, error))
    return Task("one side exact", f"{n} points, epsilon {epsilon:g}, tau 1", calls, 1, 3, "POT")


def batch(count: int) -> Task:
    """1,000 x 64 x 64."""
    import ot

    costs = np.stack([cost_matrix(64, seed) for seed in range(1000)])
    epsilon, a = 0.05, weights(64)

    def worst(answer: Any) -> float:
        plans, potentials = answer
        some = range(0, 1000, 50)
        return max(
            certify.entropic_kl(costs[k], plans[k], tuple(x[k] for x in potentials), epsilon=epsilon).relative_gap
            for k in some
        )

    def one_by_one() -> Any:
        found = [pot_balanced(cost, epsilon) for cost in costs]
        return np.stack([plan for plan, _ in found]), tuple(
            np.stack(x) for x in zip(*(p for _, p in found), strict=True)
        )

    tensor, uniform = torch.from_numpy(costs), torch.from_numpy(np.tile(a, (1000, 1)))

    def batched() -> Any:
        found = ot.batch.solve_batch(tensor, epsilon, uniform, uniform)
        return found.plan.numpy(), None

    def off(answer: Any) -> float:
        return float(np.abs(answer[0].sum(1) - a).sum(1).max())

    calls = [
        ours(costs, worst, epsilon=epsilon),
        Call("POT, one by one", one_by_one, worst),
        Call("POT solve_batch (error: of the marginals)", batched, off),
    ]
    return Task("batch", f"1,000 problems of 64 points, epsilon {epsilon:g}", calls, count, 3, "POT, one by one")


def relative_cost(cost: np.ndarray, plan: np.ndarray) -> float:
    return float((cost * plan).sum())


def exact(n: int) -> Task:
    import ot
    from scipy.optimize import linear_sum_assignment

    cost, a = cost_matrix(n), weights(n)

    def assignment() -> np.ndarray:
        plan = np.zeros_like(cost)
        plan[linear_sum_assignment(cost)] = 1 / n
        return plan

    value = partial(relative_cost, cost)
    calls = [
        Call("jumbot", lambda: np.asarray(jumbot.solve(cost, epsilon=0.0).plan), value),
        Call("POT emd", lambda: ot.emd(a, a, cost, numItermax=10_000_000), value),
    ]
    if n <= _SCIPY:
        calls.append(Call("SciPy assignment", assignment, value))
    return Task("exact", f"{n:,} points", calls)


def partial_exact(n: int) -> Task:
    import ot

    cost, a = cost_matrix(n), weights(n)
    value = partial(relative_cost, cost)
    calls = [
        Call("jumbot", lambda: np.asarray(jumbot.solve(cost, epsilon=0.0, mass=0.6).plan), value),
        Call("POT", lambda: ot.partial.partial_wasserstein(a, a, cost, m=0.6), value),
    ]
    return Task("partial, exact", f"{n:,} points, mass .6", calls)


def partial_entropic(n: int, epsilon: float) -> Task:
    """Beside the tau that moves the same mass, which is another problem, and says what the constraint costs."""
    import ot

    cost, a = 50 * cost_matrix(n), weights(n)
    best = jumbot.solve(cost, epsilon=epsilon, mass=0.6, tol=1e-12)
    bound = certify.partial_dual(cost, tuple(map(np.asarray, best.potentials)), epsilon=epsilon, mass=0.6)

    def error(plan: np.ndarray) -> float:
        return certify.partial_error(cost, plan, bound, epsilon=epsilon, mass=0.6)

    def moved(log_tau: float) -> float:
        return float(jumbot.solve(cost, epsilon=epsilon, tau=math.exp(log_tau), tol=1e-6).mass)

    low, high = -8.0, 8.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if moved(middle) < 0.6 else (low, middle)
    tau = math.exp(high)
    calls = [
        Call("jumbot", lambda: np.asarray(jumbot.solve(cost, epsilon=epsilon, mass=0.6).plan), error),
        Call("POT", lambda: ot.partial.entropic_partial_wasserstein(a, a, cost, epsilon, m=0.6), error),
        Call(f"jumbot, tau {tau:.2g} instead", lambda: jumbot.solve(cost, epsilon=epsilon, tau=tau).plan),
    ]
    return Task("partial, entropic", f"{n} points, costs to 50, epsilon {epsilon:g}, mass .6", calls)


def divergence(n: int, tau: float, count: int = 1) -> Task:
    """Value and gradient in x of the Sinkhorn divergence for |x - y|^2 / 2 at epsilon .01."""
    from geomloss import SamplesLoss

    rng, epsilon = np.random.default_rng(n), 0.01
    points = rng.random((n, 2)), rng.random((n, 2)) * 0.8 + 0.2
    truth = divergence_gradient(*points, epsilon, tau)
    x, y = (torch.tensor(p) for p in points)
    x.requires_grad_()

    def own(**options: Any) -> np.ndarray:
        value = jumbot.sinkhorn_divergence(x, y, epsilon=2 * epsilon, tau=2 * tau, **options)
        return torch.autograd.grad(value / 2, x)[0].numpy()

    def theirs(scaling: float) -> np.ndarray:
        reach = None if math.isinf(tau) else math.sqrt(tau)
        loss = SamplesLoss("sinkhorn", p=2, blur=math.sqrt(epsilon), reach=reach, scaling=scaling, backend="tensorized")
        return torch.autograd.grad(loss(x, y), x)[0].numpy()

    def error(gradient: np.ndarray) -> float:
        return float(np.linalg.norm(gradient - truth) / np.linalg.norm(truth))

    calls = [Call("jumbot", own, error), Call("jumbot at tol 1e-3", partial(own, tol=1e-3), error)]
    calls += [Call(f"GeomLoss, scaling {s:g}", partial(theirs, s), error) for s in (0.5, 0.9, 0.99)]
    limit = "balanced" if math.isinf(tau) else f"tau {tau:g}"
    return Task("divergence with gradient", f"{n} points, {limit}", calls, count, 3, "GeomLoss, scaling 0.99")


def coupling(n: int) -> Task | None:
    try:
        from torchcfm.optimal_transport import OTPlanSampler
    except ImportError:
        return None
    draw = torch.Generator().manual_seed(0)
    x0, x1 = torch.randn(n, 2, generator=draw), torch.randn(n, 2, generator=draw) + 1
    peer = OTPlanSampler("exact")
    calls = [
        Call("jumbot.couple", partial(jumbot.couple, x0, x1, generator=draw)),
        Call("torchcfm", partial(peer.sample_plan, x0, x1)),
    ]
    return Task("coupling of a minibatch", f"{n} points, exact", calls)


def tiny() -> Task:
    import ot

    cost, a = cost_matrix(5), weights(5)
    error = partial(gap_of, cost, 0.1, math.inf)
    calls = [
        ours(cost, error, epsilon=0.1),
        Call("POT", partial(pot_balanced, cost, 0.1), error),
        Call("POT emd", lambda: ot.emd(a, a, cost)),
        Call("jumbot, epsilon 0", lambda: jumbot.solve(cost, epsilon=0.0).plan),
    ]
    return Task("overhead of one call", "5 points, epsilon 0.1", calls)


def tasks(quick: bool) -> list[Callable[[], Task | None]]:
    """What makes each row, when its turn comes; None where the peer is not installed."""
    sizes, both = ((65, 256), (1,)) if quick else ((65, 256, 1000), (1, 2))
    rows: list[Callable[[], Task | None]] = [tiny]
    rows += [partial(balanced, n, epsilon) for n in sizes for epsilon in (0.5, 0.05, 0.005)]
    rows += [] if quick else [partial(balanced, 1000, 0.05, 2)]
    rows += [partial(one_sided, n, 0.05) for n in sizes[:2]]
    rows += [partial(batch, count) for count in both]
    rows += [partial(exact, n) for n in ((50,) if quick else (50, 200, 1000, 5000))]
    rows += [partial(partial_exact, n) for n in ((50,) if quick else (50, 1000))]
    rows += [partial(partial_entropic, 50, epsilon) for epsilon in (0.1, 0.001)]
    rows += [partial(divergence, n, tau) for n in ((64,) if quick else (64, 256)) for tau in (math.inf, 0.5)]
    rows += [] if quick else [partial(divergence, 256, math.inf, 2)]
    rows += [partial(coupling, n) for n in ((128,) if quick else (128, 1024))]
    return rows


def measure(task: Task, budget: float) -> dict[str, Any]:
    """Medians of interleaved calls, and what each answer is worth."""
    with threads(task.threads), contextlib.redirect_stdout(io.StringIO()):  # POT prints where it breaks down
        begin = time.perf_counter()
        errors = [call.judged() for call in task.calls]
        long = time.perf_counter() - begin > _LONG
        if task.group in ("exact", "partial, exact"):
            errors = [value / min(errors) - 1 for value in errors]
        times = interleave({call.name: [call.run] for call in task.calls}, budget=budget, rounds=1 if long else 3)
    solvers = [
        {
            "name": call.name,
            "seconds": statistics.median(times[call.name]),
            "error": error,
            "calls": len(times[call.name]),
        }
        for call, error in zip(task.calls, errors, strict=True)
    ]
    row: dict[str, Any] = {"group": task.group, "problem": task.name, "threads": task.threads, "solvers": solvers}
    if task.floor is not None:
        peer = next(s for s in solvers if s["name"] == task.against)
        row |= {"floor": task.floor, "against": task.against, "ratio": peer["seconds"] / solvers[0]["seconds"]}
    return row


def run(make: Callable[[], Task | None], quick: bool, say: Callable[[str], None]) -> dict[str, Any] | None:
    """One row, and a line that says what was found; None where the peer is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = make()
        if task is None:
            return None
        row = measure(task, 0.3 if quick else 1.5)
    times = "; ".join(f"{s['name']} {milliseconds(s)} ms" for s in row["solvers"])
    say(f"{row['group']}, {row['problem']}{_threaded(row)}: {times}")
    return row


def milliseconds(solver: dict[str, Any]) -> str:
    """Time and, in brackets, error."""
    error = solver["error"]
    suffix = "" if error is None else f" ({error:.0e})" if math.isfinite(error) else " (breaks down)"
    return f"{1e3 * solver['seconds']:.3g}{suffix}"


def _threaded(row: dict[str, Any]) -> str:
    return "" if row["threads"] == 1 else f", {row['threads']} threads"


def table(rows: list[dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and lines: ours, every other call, and how many times as long the quickest peer at its defaults takes."""
    lines = []
    for row in rows:
        own, *others = row["solvers"]
        peers = [s for s in others if not s["name"].startswith("jumbot")]
        sound = [s for s in peers if s["error"] is None or (math.isfinite(s["error"]) and s["error"] < 0.1)]
        best = min((s["seconds"] for s in sound), default=None)
        lines.append(
            (
                row["group"],
                f"{row['problem']}{_threaded(row)}",
                milliseconds(own),
                "; ".join(f"{s['name']} {milliseconds(s)}" for s in others),
                "-" if best is None else f"{best / own['seconds']:.1f}x",
            )
        )
    return ("what", "problem", "jumbot, ms (error)", "others, ms (error)", "quickest peer / jumbot"), lines
