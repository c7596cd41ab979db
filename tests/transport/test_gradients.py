"""Gradients by the envelope theorem against central finite differences, and what is kept for backward."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

import jumbot

from ..generators import posed, rectangular
from ..oracles import SETTINGS, cases

TOL = 1e-12


def gradients(problem, *, field="value", **options):
    """d field / d (cost, a, b)."""
    leaves = [torch.tensor(x, requires_grad=True) for x in (problem.cost, problem.a, problem.b)]
    solution = jumbot.solve(*leaves, **problem.arguments, tol=TOL, **options)
    return [x.numpy() for x in torch.autograd.grad(getattr(solution, field), leaves)]


def directional(problem, name, direction, step=1e-4):
    """The central difference of the value, of fourth order."""

    def value(t):
        return problem.but(**{name: getattr(problem, name) + t * step * direction}).solve(tol=TOL).value

    return (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / (12 * step)


def directions(problem, name, rng):
    """Two random directions; of mass zero for the weights of a balanced problem."""
    balanced = set(problem.taus) == {math.inf} and problem.mass is None and problem.divergence == "kl"
    for _ in range(2):
        direction = rng.normal(size=getattr(problem, name).shape)
        if balanced and name != "cost":
            direction -= direction.mean()
        yield direction / np.linalg.norm(direction)


NAMED = [name for name in SETTINGS if name != "power"]  # slow; user-made ones are in test_divergences


@pytest.mark.parametrize("case", cases(0, 0.2, references=("product", "ones"), settings=NAMED))
def test_against_finite_differences(case, rng):
    """At epsilon = 0 too: for random costs and weights the plan and the potentials are unique."""
    problem = posed(rng, 4, 3, **case)
    for name, gradient in zip(("cost", "a", "b"), gradients(problem), strict=True):
        for direction in directions(problem, name, rng):
            expected = directional(problem, name, direction)
            assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize("case", cases(0.2, settings=[name for name in NAMED if name != "balanced"]))
def test_weight_zero_has_the_one_sided_derivative(case, rng):
    """a_1 = 0 and R = a b': (P1)_1/a_1 has the limit sum_j b_j e^{(f_1+g_j-C_1j)/epsilon}."""
    problem = posed(rng, 4, 3, zeros=1, **case)
    step = 1e-6
    for name, gradient in zip(("a", "b"), gradients(problem)[1:], strict=True):
        first = np.eye(len(gradient))[0]
        ahead = [
            problem.but(**{name: getattr(problem, name) + t * step * first}).solve(tol=TOL).value for t in (0, 1, 2)
        ]
        forward = (-3 * ahead[0] + 4 * ahead[1] - ahead[2]) / (2 * step)
        assert np.isfinite(gradient).all()
        assert gradient[0] == pytest.approx(forward, rel=1e-4, abs=1e-5), name


def test_weight_zero_without_entropy(rng):
    problem = posed(rng, 4, 3, zeros=1, epsilon=0, tau=0.7)
    step, first = 1e-6, np.eye(4)[0]
    forward = (problem.but(a=problem.a + step * first).solve(tol=TOL).value - problem.solve(tol=TOL).value) / step
    assert gradients(problem)[1][0] == pytest.approx(forward, rel=1e-3)


@pytest.mark.parametrize("case", cases(0, 0.1))
def test_gradient_in_cost_is_the_plan(case, rng):
    problem = posed(rng, **case)
    cost = torch.tensor(problem.cost, requires_grad=True)
    solution = jumbot.solve(cost, torch.tensor(problem.a), torch.tensor(problem.b), **problem.arguments)
    for field in ("value", "linear"):
        (gradient,) = torch.autograd.grad(3 * getattr(solution, field), cost, retain_graph=True)
        torch.testing.assert_close(gradient, 3 * solution.plan, rtol=1e-12, atol=0)


@pytest.mark.parametrize("epsilon", [0, 0.1])
def test_gradient_at_infinite_costs_is_zero(epsilon, rng):
    problem = posed(rng, epsilon=epsilon, tau=0.7)
    cost = problem.cost.copy()
    cost[1], cost[0, 2] = np.inf, np.inf
    for gradient in gradients(problem.but(cost=cost)):
        assert np.isfinite(gradient).all()
    for field in ("value", "linear"):
        leaf = torch.tensor(cost, requires_grad=True)
        getattr(jumbot.solve(leaf, epsilon=epsilon, tau=0.7), field).backward()
        assert (leaf.grad[torch.isinf(leaf)] == 0).all()
        assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("epsilon", [0, 0.1])
@pytest.mark.parametrize("reference", ["product", "ones"])
def test_balanced_gradient_has_mean_zero(reference, epsilon, rng):
    """It is defined up to a constant: the one returned has zero a-weighted mean, and b-weighted in b."""
    problem = rectangular(rng, masses=(1.7, 1.7), epsilon=epsilon, reference=reference)
    _, in_a, in_b = gradients(problem)
    assert in_a @ problem.a == pytest.approx(0, abs=1e-12)
    assert in_b @ problem.b == pytest.approx(0, abs=1e-12)


def test_only_value_and_linear_carry_gradients(rng):
    problem = posed(rng, tau=0.7)
    leaves = [torch.tensor(x, requires_grad=True) for x in (problem.cost, problem.a, problem.b)]
    solution = jumbot.solve(*leaves, **problem.arguments)
    assert solution.value.requires_grad
    assert solution.linear.requires_grad
    detached = [getattr(solution, name) for name in ("plan", "dual", "gap", "relative_gap", "mass")]
    for field in (*detached, *solution.potentials, *solution.marginals):
        assert not field.requires_grad


@pytest.mark.parametrize("epsilon", [0, 0.1])
def test_no_graph_through_the_iterations(epsilon, rng):
    """From the value to the leaves lie a handful of nodes; the plan and the cost are saved, however long the solve."""
    problem = posed(rng, 30, 30, epsilon=epsilon, tau=5.0)
    leaves = [torch.tensor(x, requires_grad=True) for x in (problem.cost, problem.a, problem.b)]
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.numel()) or x, lambda x: x):
        value = jumbot.solve(*leaves, **problem.arguments).value
    seen, stack = set(), [value.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            stack += [parent for parent, _ in node.next_functions]
    assert len(seen) <= 15
    assert sum(saved) <= 2 * 900 + 10 * 30


@pytest.mark.parametrize("enabled", [True, False])
def test_grad_mode_is_untouched(enabled, rng):
    problem = posed(rng, tau=0.7)
    with torch.set_grad_enabled(enabled):
        cost = torch.tensor(problem.cost, requires_grad=True)
        solution = jumbot.solve(cost, epsilon=0.1, tau=0.7)
        assert torch.is_grad_enabled() == enabled
        assert solution.value.requires_grad == enabled
    with torch.inference_mode():
        assert math.isfinite(jumbot.solve(torch.tensor(problem.cost), epsilon=0.1, tau=0.7).value)


def test_only_what_is_asked_for(rng):
    """Any subset of cost, a, b may need a gradient."""
    problem = posed(rng, tau=0.7)
    full = gradients(problem)
    for at, name in enumerate(("cost", "a", "b")):
        arrays = [torch.tensor(x) for x in (problem.cost, problem.a, problem.b)]
        arrays[at].requires_grad_()
        jumbot.solve(*arrays, **problem.arguments, tol=TOL).value.backward()
        np.testing.assert_allclose(arrays[at].grad, full[at], rtol=1e-9, err_msg=name)


def test_float32_gradient(rng):
    problem = posed(rng, 10, 8, epsilon=0.05, tau=0.7)
    leaves = [torch.tensor(x, dtype=torch.float32, requires_grad=True) for x in (problem.cost, problem.a, problem.b)]
    jumbot.solve(*leaves, **problem.arguments).value.backward()
    for leaf, expected in zip(leaves, gradients(problem), strict=True):
        assert leaf.grad.dtype == torch.float32
        np.testing.assert_allclose(leaf.grad, expected, atol=5e-3 * np.abs(expected).max())


def test_a_loss_in_a_training_loop_descends(rng):
    """Points moved by the gradient of the value reduce it."""
    x = torch.tensor(rng.normal(size=(12, 2)) + 3, requires_grad=True)
    y = torch.tensor(rng.normal(size=(10, 2)))
    values = []
    for _ in range(10):
        value = jumbot.solve(torch.cdist(x, y) ** 2, epsilon=0.5, tau=5.0).value
        (gradient,) = torch.autograd.grad(value, x)
        x = (x - gradient).detach().requires_grad_()
        values.append(value.item())
    assert all(later < earlier for earlier, later in pairwise(values))
