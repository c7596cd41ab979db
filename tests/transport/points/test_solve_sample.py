"""Transport from points gives the answer of `jumbot.solve` on the matrix: value, certificate, plan, gradients."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import jumbot
from jumbot.cost import COSTS
from jumbot.errors import ArgumentError, JumbotError, NotConvergedWarning, UnsupportedError
from jumbot.transport import _placement
from tests.refusals import refused


def manhattan(x: Tensor, y: Tensor) -> Tensor:
    return (x[:, None] - y).abs().sum(-1)


COST_NAMES: list[Any] = [*COSTS, manhattan]
TAUS = [0.5, math.inf, (0.5, math.inf), (math.inf, 0.5)]


def clouds(n: int = 130, m: int = 90, d: int = 3, seed: int = 0) -> tuple[np.ndarray, ...]:
    draw = np.random.default_rng(seed)
    a, b = draw.random(n), draw.random(m)
    return 0.6 * draw.random((n, d)), 0.6 * draw.random((m, d)) + 0.1, a / a.sum(), b / b.sum()


def matrix(cost: Any, x: Any, y: Any) -> Tensor:
    return COSTS.get(cost, cost)(torch.as_tensor(x), torch.as_tensor(y))


@pytest.mark.parametrize("cost", COST_NAMES)
@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_agrees_with_solve(cost: Any, tau: Any, dtype: torch.dtype) -> None:
    x, y, a, b = (torch.tensor(z, dtype=dtype, requires_grad=True) for z in clouds())
    tol = 1e-9
    truth = jumbot.solve(matrix(cost, x, y), a, b, epsilon=0.05, tau=tau, tol=tol)
    found = jumbot.solve_sample(x, y, a, b, cost=cost, epsilon=0.05, tau=tau, tol=tol)
    loose = 1e-8 if dtype == torch.float64 else 1e-5
    assert found.converged
    assert float(found.value.detach()) == pytest.approx(float(truth.value.detach()), rel=loose)
    assert float(found.dual) <= float(truth.value.detach()) * (1 + loose)
    assert float(found.linear.detach()) == pytest.approx(float(truth.linear.detach()), rel=1e-4)
    assert float(found.mass) == pytest.approx(float(truth.mass), rel=1e-4)
    for own, other in zip(found.marginals, truth.marginals, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-6)
    slopes = torch.autograd.grad(found.value, (x, y, a, b))
    for own, other in zip(slopes, torch.autograd.grad(truth.value, (x, y, a, b)), strict=True):
        assert float((own - other).abs().max()) <= 2e-4 * float(other.abs().max())


@pytest.mark.parametrize("cost", COST_NAMES)
@pytest.mark.parametrize("tau", [0.5, math.inf])
def test_what_is_read_of_the_plan(cost: Any, tau: float) -> None:
    x, y, a, b = clouds(70, 60)
    plan = jumbot.solve(matrix(cost, x, y).numpy(), a, b, epsilon=0.05, tau=tau, tol=1e-12).plan
    found = jumbot.solve_sample(x, y, a, b, cost=cost, epsilon=0.05, tau=tau, tol=1e-12)
    close = {"rtol": 1e-4, "atol": 1e-9}
    v, w = np.random.default_rng(1).random((60, 2)), np.random.default_rng(2).random(70)
    np.testing.assert_allclose(found.apply(v), plan @ v, **close)
    np.testing.assert_allclose(found.apply(w, transpose=True), plan.T @ w, **close)
    np.testing.assert_allclose(found.barycentric_map(), plan @ y / plan.sum(1, keepdims=True), **close)
    np.testing.assert_allclose(found.row(5), plan[5], **close)
    columns, values = found.top(4)
    np.testing.assert_allclose(values, -np.sort(-plan, axis=1)[:, :4], **close)
    np.testing.assert_allclose(np.take_along_axis(plan, columns, 1), values, **close)
    threshold = float(np.median(plan))
    sparse = found.to_sparse(threshold).toarray()
    sure = np.abs(plan - threshold) > 1e-8
    np.testing.assert_allclose(sparse[sure], np.where(plan > threshold, plan, 0)[sure], **close)
    i, j = found.sample(200_000, np.random.default_rng(0))
    counts = np.zeros_like(plan)
    np.add.at(counts, (i, j), 1 / len(i))
    share = plan / plan.sum()
    assert np.abs(counts - share).sum() < 1.2 * np.sqrt(2 / np.pi * share / len(i)).sum()


@pytest.mark.parametrize(
    ("divergence", "tau"), [("tv", 0.3), ("chi2", 0.3), ("power(0.5)", 0.3), ("range(0.8,1.25)", math.inf)]
)
@pytest.mark.parametrize("reference", ["product", "ones"])
def test_other_divergences(divergence: str, tau: float, reference: str) -> None:
    x, y, a, b = clouds()
    settings = {"epsilon": 0.05, "tau": tau, "divergence": divergence, "reference": reference}
    truth = jumbot.solve(matrix("sqeuclidean", x, y).numpy(), a, b, **settings, tol=1e-9)
    found = jumbot.solve_sample(x, y, a, b, **settings, tol=1e-6)
    assert found.converged
    assert truth.dual - 1e-9 <= found.value <= truth.value + found.gap + 1e-12
    assert found.gap >= found.value - truth.value - 1e-12


class Hellinger(jumbot.Divergence):
    """phi(x) = (sqrt(x) - 1)^2, by nothing but what a user has to write."""

    recession = 1.0

    def phi(self, x: Tensor) -> Tensor:
        return (x.sqrt() - 1) ** 2

    def conjugate(self, s: Tensor) -> Tensor:
        return torch.where(s < 1, s / (1 - s), math.inf)


def test_a_divergence_of_ones_own() -> None:
    x, y, a, b = clouds()
    settings = {"epsilon": 0.05, "tau": 0.3, "divergence": Hellinger()}
    truth = jumbot.solve(matrix("sqeuclidean", x, y).numpy(), a, b, **settings, tol=1e-9)
    found = jumbot.solve_sample(x, y, a, b, **settings, tol=1e-6)
    assert found.converged
    assert found.value - found.gap - 1e-9 <= truth.value <= found.value + 1e-9


def test_batches_and_numpy() -> None:
    x, y, a, b = clouds()
    batch = np.stack([x, x + 0.05])
    found = jumbot.solve_sample(batch, y, a, b, epsilon=0.05, tau=0.5, tol=1e-8)
    assert isinstance(found.value, np.ndarray)
    assert found.value.shape == (2,) == found.converged.shape == found.kept.shape
    alone = jumbot.solve_sample(batch[1], y, a, b, epsilon=0.05, tau=0.5, tol=1e-8)
    assert found.value[1] == pytest.approx(alone.value, rel=1e-12)
    assert found.apply(np.ones((2, 90))).shape == (2, 130)
    assert found.top(2)[0].shape == (2, 130, 2)
    assert len(found.to_sparse(1e-5)) == 2
    points = torch.tensor(batch, requires_grad=True)
    value = jumbot.solve_sample(points, torch.tensor(y), epsilon=0.05, tau=0.5, tol=1e-8).value
    (slope,) = torch.autograd.grad(value.sum(), points)
    assert slope.shape == points.shape


@pytest.mark.parametrize("cost", COST_NAMES)
@pytest.mark.parametrize("batch", [False, True])
def test_the_linear_cost_has_the_gradient_of_the_plan_held_fixed(cost: Any, batch: bool) -> None:
    x, y, a, b = (torch.tensor(z) for z in clouds(40, 30))
    if batch and not callable(cost):
        x, y = torch.stack([x, 1.5 * x]), torch.stack([y, y])
    x, y = x.requires_grad_(), y.requires_grad_()
    found = jumbot.solve_sample(x, y, a, b, cost=cost, epsilon=0.05, tau=0.5, tol=1e-9)
    plan = torch.stack([found.row(i) for i in range(40)], dim=-2)
    truth = (plan * (matrix(cost, x, y) if not callable(cost) else manhattan(x, y))).sum()
    for own, other in zip(
        torch.autograd.grad(found.linear.sum(), (x, y)), torch.autograd.grad(truth, (x, y)), strict=True
    ):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-9)


def test_what_the_gradient_of_the_linear_cost_does_not_know_is_refused() -> None:
    x, y, a, b = (torch.tensor(z, requires_grad=True) for z in clouds(20, 20))
    linear = jumbot.solve_sample(x, y, a, b, epsilon=0.05, tau=0.5).linear
    (slope,) = torch.autograd.grad(linear, x, create_graph=True)
    with pytest.raises(UnsupportedError, match="linear"):
        slope.sum().backward(retain_graph=True)
    with pytest.raises(UnsupportedError, match=r"linear.*weights"):
        linear.backward()


def test_gradients_are_finite_differences() -> None:
    x, y, a, b = (torch.tensor(z, requires_grad=True) for z in clouds(12, 9, 2))
    for cost in COST_NAMES:

        def value(*inputs: Tensor, cost: Any = cost) -> Tensor:
            return jumbot.solve_sample(*inputs, cost=cost, epsilon=0.2, tau=0.5, tol=1e-14).value

        assert torch.autograd.gradcheck(value, (x, y, a, b), eps=1e-5, atol=1e-6, rtol=1e-4)


def test_warm_start() -> None:
    x, y, a, b = clouds()
    settings = {"epsilon": 0.02, "tau": 0.5, "tol": 1e-8}
    first = jumbot.solve_sample(x, y, a, b, **settings)
    for init in (first, first.potentials):
        assert jumbot.solve_sample(x, y, a, b, **settings, init=init).iterations <= 2 < first.iterations


def test_stopping_short_warns_and_stays_certified() -> None:
    x, y, a, b = clouds()
    truth = jumbot.solve(matrix("sqeuclidean", x, y).numpy(), a, b, epsilon=0.005, tau=5.0, tol=1e-10)
    with pytest.warns(NotConvergedWarning):
        found = jumbot.solve_sample(x, y, a, b, epsilon=0.005, tau=5.0, tol=1e-12, max_iterations=2)
    assert found.status is jumbot.Status.MAX_ITERATIONS
    assert found.value - found.gap <= truth.value <= found.value


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"epsilon": 0.0}, UnsupportedError, "^epsilon"),
        ({"epsilon": -1.0}, ArgumentError, "^epsilon"),
        ({"mass": 0.5}, UnsupportedError, "^mass"),
        ({"x": np.full((3, 2), np.nan)}, ArgumentError, "^x"),
        ({"y": np.zeros((3, 5))}, ArgumentError, "^x, y"),
        ({"x": np.zeros((0, 2))}, ArgumentError, "^x"),
        ({"x": np.zeros(3)}, ArgumentError, "^x"),
        ({"x": np.zeros((3, 2), dtype=np.complex64)}, ArgumentError, "^x"),
        ({"x": np.zeros((3, 2), dtype=np.float16)}, ArgumentError, "^y: torch.float64"),  # half is taken as float32
        ({"x": torch.zeros(3, 2, dtype=torch.long), "y": torch.zeros(3, 2)}, ArgumentError, "^y: torch.float32"),
        ({"y": torch.zeros(3, 2)}, ArgumentError, "^y"),
        ({"cost": "cosine", "x": np.zeros((3, 2))}, ArgumentError, "^x"),
        ({"cost": "manhattan"}, ArgumentError, "^cost"),
        ({"cost": lambda x, y: x}, ArgumentError, "^cost"),
        ({"cost": "wfr", "y": np.full((3, 2), 9.0)}, ArgumentError, "^cost"),
        ({"a": np.array([1.0, -1.0, 1.0])}, ArgumentError, "^a"),
        ({"a": np.array([2.0, 1.0, 1.0])}, ArgumentError, "^a, b"),
        ({"reference": "sum"}, ArgumentError, "^reference"),
        ({"reference": np.ones((3, 3))}, ArgumentError, "^reference"),
        (
            {"divergence": "l2", "tau": 1.0, "reference": "ones", "b": np.array([0.5, 0.0, 0.5])},
            UnsupportedError,
            "^b must be > 0",
        ),
        ({"memory": 1000}, ArgumentError, "^memory"),
        ({"init": (np.zeros(2), np.zeros(3))}, ArgumentError, "^init"),
        ({"tol": -1.0}, ArgumentError, "^tol"),
    ],
)
def test_refusals(changed: dict[str, Any], error: type[JumbotError], match: str) -> None:
    given: dict[str, Any] = {"x": np.eye(3, 2) + 1, "y": np.eye(3, 2), "epsilon": 0.1} | changed
    with pytest.raises(error, match=match):
        jumbot.solve_sample(**given)


def test_refusals_of_what_is_read() -> None:
    found = jumbot.solve_sample(np.eye(3, 2), np.eye(4, 2), epsilon=0.1, tau=1.0)
    for wrong, match in (
        (lambda: found.apply(np.ones(3)), "^v"),
        (lambda: found.apply(np.full(4, np.nan)), "^v"),
        (lambda: found.top(5), "^k"),
        (lambda: found.row(3), "^i"),
        (lambda: found.to_sparse(-1.0), "^threshold"),
        (lambda: found.sample(0), "^n"),
        (lambda: found.sample(2, generator=3), "^generator"),
    ):
        with refused(match):
            wrong()


def test_a_plan_that_is_asked_for_says_what_to_ask_instead() -> None:
    found = jumbot.solve_sample(np.eye(3, 2), np.eye(4, 2), epsilon=0.1, tau=1.0)
    assert not hasattr(found, "plan")
    with pytest.raises(AttributeError, match="to_sparse"):
        found.plan  # noqa: B018
    with pytest.raises(AttributeError, match="'plann'"):
        found.plann  # noqa: B018


def test_half_precision_is_solved_in_float32() -> None:
    x, y, *_ = clouds()
    for half in (x.astype(np.float16), torch.tensor(x).bfloat16()):
        other = y.astype(np.float16) if isinstance(half, np.ndarray) else torch.tensor(y).bfloat16()
        single = (half.astype(np.float32), other.astype(np.float32)) if isinstance(half, np.ndarray) else None
        found = jumbot.solve_sample(half, other, epsilon=0.05, tau=0.5).value
        assert str(found.dtype).endswith("float32")
        if single is not None:
            assert found == jumbot.solve_sample(*single, epsilon=0.05, tau=0.5).value


def test_integer_points_are_taken_as_numbers() -> None:
    x = np.arange(6).reshape(3, 2)
    value = jumbot.solve_sample(x, x + 1, epsilon=0.5, tau=1.0).value
    assert value == pytest.approx(jumbot.solve_sample(x.astype(float), x + 1.0, epsilon=0.5, tau=1.0).value)


def test_the_sinkhorn_divergence_of_large_clouds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a size it makes no matrix: the same value and the same gradients."""
    x, y, a, b = (torch.tensor(z, requires_grad=True) for z in clouds())
    settings = {"epsilon": 0.05, "tau": 0.5, "tol": 1e-7}
    dense = jumbot.sinkhorn_divergence(x, y, a, 2 * b, **settings)
    monkeypatch.setattr(_placement, "LARGEST_MATRIX", 1000)
    monkeypatch.setattr(
        sys.modules["jumbot.transport._sinkhorn_divergence"], "parse_cost", lambda cost: lambda x, y: 1 / 0
    )
    streamed = jumbot.sinkhorn_divergence(x, y, a, 2 * b, **settings)
    assert float(streamed.detach()) == pytest.approx(float(dense.detach()), rel=1e-6)
    truth = torch.autograd.grad(dense, (x, y, a, b))
    for own, other in zip(torch.autograd.grad(streamed, (x, y, a, b)), truth, strict=True):
        assert float((own - other).abs().max()) <= 1e-4 * float(other.abs().max())


@pytest.mark.parametrize("loss", ["transport", "sinkhorn_divergence"])
@pytest.mark.parametrize("weighted", [False, True])
def test_large_minibatches_make_no_matrix(loss: str, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`estimate`, and with it `jumbot distance`: the same values and the same errors."""
    x, y, a, b = clouds()
    weights = {"a": a, "b": b} if weighted else {}
    settings: dict[str, Any] = {"m": 60, "k": 4, "epsilon": 0.05, "tau": 0.5, "loss": loss, "tol": 1e-9, **weights}
    dense = jumbot.estimate(x, y, **settings)
    monkeypatch.setattr(_placement, "LARGEST_MATRIX", 1000)
    monkeypatch.setattr("jumbot.minibatch._costs.Minibatches.cost", lambda *_: 1 / 0)
    monkeypatch.setattr("jumbot.minibatch._losses.solve_tiles", lambda *_: 1 / 0)
    streamed = jumbot.estimate(x, y, **settings)
    np.testing.assert_allclose(streamed.values, dense.values, rtol=1e-6)
    assert streamed.standard_error() == pytest.approx(dense.standard_error(), rel=1e-3)


def test_solve_names_this_function_where_a_plan_would_not_fit() -> None:
    with pytest.raises(JumbotError, match="solve_sample"):
        jumbot.solve(torch.zeros(1, 1).expand(10**7, 10**7), epsilon=0.1)


def test_ctrl_c_returns_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from jumbot.transport._points.sample_sweeps import Sweeps

    x, y, a, b = clouds()
    truth = jumbot.solve(matrix("sqeuclidean", x, y).numpy(), a, b, epsilon=0.005, tau=0.5, tol=1e-10)
    sweep = Sweeps.sweep

    def interrupted(self: Sweeps, f: Any, g: Any) -> Any:
        if self.count == 2:
            raise KeyboardInterrupt
        return sweep(self, f, g)

    monkeypatch.setattr(Sweeps, "sweep", interrupted)
    with pytest.warns(NotConvergedWarning):
        found = jumbot.solve_sample(x, y, a, b, epsilon=0.005, tau=0.5, tol=1e-12, init=(0 * a, 0 * b))
    assert found.status is jumbot.Status.INTERRUPTED
    assert found.value - found.gap <= truth.value <= found.value


def test_ctrl_c_before_the_first_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a coarser problem, or a matrix, gives the start: the gap is large, and true."""
    from jumbot.transport._points import engine_choice

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine_choice, "find_outcome", interrupted)
    for n, tau in ((130, 0.5), (2500, 0.5), (130, math.inf)):
        x, y, a, b = clouds(n, 90)
        truth = jumbot.solve(matrix("sqeuclidean", x, y).numpy(), a, b, epsilon=0.02, tau=tau)
        with pytest.warns(NotConvergedWarning):
            found = jumbot.solve_sample(x, y, a, b, epsilon=0.02, tau=tau)
        assert found.status is jumbot.Status.INTERRUPTED
        assert found.value - found.gap <= truth.value <= found.value < math.inf


@pytest.mark.parametrize("tau", [0.5, math.inf])
def test_ctrl_c_while_coarser_points_are_swept(tau: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the call, not the coarser problem alone."""
    from jumbot.transport._points import engine_choice
    from jumbot.transport._points.sample_sweeps import Sweeps

    monkeypatch.setattr(engine_choice, "FEWEST", 30)
    sizes, sweep = [], Sweeps.sweep

    def interrupted(self: Sweeps, f: Any, g: Any) -> Any:
        sizes.append(len(self.a))
        if len(sizes) == 1:
            raise KeyboardInterrupt
        return sweep(self, f, g)

    monkeypatch.setattr(Sweeps, "sweep", interrupted)
    x, y, a, b = clouds(900, 800)
    with pytest.warns(NotConvergedWarning):
        found = jumbot.solve_sample(x, y, a, b, epsilon=0.05, tau=tau)
    assert sizes[0] < 900
    assert len(sizes) == 1
    assert found.status is jumbot.Status.INTERRUPTED
    assert found.gap > 0


@pytest.mark.parametrize(
    ("settings", "reference"),
    [({"tau": 0.5}, "product"), ({"tau": (0.5, 2.0)}, "ones"), ({"tau": 0.3, "divergence": "tv"}, "product")],
)
@pytest.mark.parametrize("cost", ["sqeuclidean", "cosine"])
def test_where_no_pair_can_be_left_out_the_matrix_is_the_same_answer(
    settings: dict[str, Any], reference: str, cost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In many dimensions: in all that can be read of it, and not made where `memory` does not allow it."""
    from jumbot.transport._points import engine_choice

    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(330, 12)), draw.normal(size=(270, 12)) + 0.3
    x, y = (torch.tensor(z / 5, requires_grad=True) for z in (x, y))
    a, b = torch.tensor(draw.random(330)), torch.tensor(draw.random(270))
    settings = {"epsilon": 0.05, "reference": reference, "tol": 1e-9, "cost": cost, **settings}
    by_matrix = jumbot.solve_sample(x, y, a, b, **settings)
    monkeypatch.setattr(engine_choice, "_MATRIX", 0)
    streamed = jumbot.solve_sample(x, y, a, b, **settings)
    assert by_matrix.converged
    assert streamed.converged
    assert by_matrix.kept == 1
    assert abs(float(by_matrix.value.detach()) - float(streamed.value.detach())) <= float(by_matrix.gap + streamed.gap)
    for name in ("linear", "mass", "dual"):
        one, other = (getattr(solution, name).detach() for solution in (by_matrix, streamed))
        assert float(one) == pytest.approx(float(other), rel=1e-4)
    torch.testing.assert_close(by_matrix.barycentric_map(), streamed.barycentric_map(), rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(by_matrix.marginals[1], by_matrix.apply(torch.ones(330), transpose=True).to(b))
    torch.testing.assert_close(by_matrix.row(7).sum(), by_matrix.marginals[0][7])
    for own, other in zip(*(torch.autograd.grad(s.value, (x, y)) for s in (by_matrix, streamed)), strict=True):
        assert float((own - other).abs().max()) <= 2e-4 * float(other.abs().max())


def test_no_matrix_where_memory_does_not_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from jumbot.transport._points import engine_choice

    made: list[int] = []
    whole = engine_choice.find_outcome

    def recorded(problem: Any, *rest: Any) -> Any:
        made.append(problem.cost.numel())
        return whole(problem, *rest)

    monkeypatch.setattr(engine_choice, "find_outcome", recorded)
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(2, 2500, 10))
    jumbot.solve_sample(x, y, epsilon=1.0, tau=10.0)
    assert made == [2500 * 2500]
    jumbot.solve_sample(x, y, epsilon=1.0, tau=10.0, memory=90_000_000)
    assert max(made[1:]) * 20 < 90_000_000
