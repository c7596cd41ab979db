"""Gradients that are differentiated again: right by finite differences, or refused by name, never silently a part."""

import gc
import math
import weakref

import pytest
import torch
from torch.autograd import forward_ad

import jumbot
from jumbot.cost import euclidean, squared_euclidean
from tests.refusals import refused

LABELS = torch.tensor([0, 1, 2, 0, 1])


def squares(x, y):
    """With a second derivative, which `torch.cdist` has not."""
    return (x[..., :, None, :] - y[..., None, :, :]).square().sum(-1)


def value(x, y):
    return jumbot.solve(squares(x, y), epsilon=0.1, tau=1.0).value


def of_weights(x, y):
    return jumbot.solve(torch.cdist(y, y), x[:, 0].exp(), x[:, 1].exp(), epsilon=0.1, tau=1.0).value


def of_loss(x, y):
    out = jumbot.JointTransportLoss(0.1, 1.0, 0.5, 0.1)(x, LABELS, y, x[:, :1] + y)
    return out.loss + out.value


CALLS = {
    "value": value,
    "a batch": lambda x, y: value(x.expand(3, 5, 3), y).sum(),
    "exact": lambda x, y: jumbot.solve(squares(x, y), epsilon=0.0).value,
    "squared value": lambda x, y: value(x, y) ** 2,
    "linear": lambda x, y: jumbot.solve(squares(x, y), epsilon=0.1).linear,
    "partial": lambda x, y: jumbot.solve(squares(x, y), epsilon=0.1, mass=0.5).value,
    "tv": lambda x, y: jumbot.solve(squares(x, y), epsilon=0.1, tau=1.0, divergence="tv").value,
    "points": lambda x, y: jumbot.solve_sample(x, y, epsilon=0.1, tau=1.0, tol=1e-12).value,
    "points, chi2": lambda x, y: jumbot.solve_sample(x, y, epsilon=0.1, tau=1.0, divergence="chi2").value,
    "weights": of_weights,
    "divergence": lambda x, y: jumbot.sinkhorn_divergence(x, y, epsilon=0.1),
    "divergence of a cost": lambda x, y: jumbot.sinkhorn_divergence(x, y, epsilon=0.1, cost="euclidean"),
    "loss": of_loss,
}


@pytest.fixture
def clouds():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(5, 3, dtype=torch.float64, generator=generator) for _ in range(2))
    return x.requires_grad_(), y


REFUSED = {
    "exact": "epsilon = 0",
    "linear": "plan fixed",
    "partial": "mass=",
    "tv": "TV",
    "points, chi2": "ChiSquare",
    "loss": "plan fixed",
}


@pytest.mark.parametrize("name", CALLS)
def test_a_second_derivative_is_right_or_refused(name, clouds):
    """Of a gradient penalty only the part with the plan held fixed would come, and nobody would know."""
    x, y = clouds
    (gradient,) = torch.autograd.grad(CALLS[name](x, y), x, create_graph=True)
    if name in REFUSED:
        with pytest.raises(jumbot.errors.UnsupportedError, match=rf"second derivatives[\s\S]*{REFUSED[name]}"):
            (x.sum() + gradient.square().sum()).backward()
        return
    (found,) = torch.autograd.grad(gradient.square().sum(), x)
    move, step = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1)), 1e-4
    ends = []
    for sign in (1, -1):
        at = (x.detach() + sign * step * move).requires_grad_()
        (slope,) = torch.autograd.grad(CALLS[name](at, y), at)
        ends.append(float(slope.square().sum()))
    truth = (ends[0] - ends[1]) / (2 * step)
    assert float((found * move).sum()) == pytest.approx(truth, rel=2e-3, abs=1e-3 * abs(ends[0]))


def positive(n, seed):
    return (torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.5).requires_grad_()


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("tau", [1.0, (0.5, 2.0), (math.inf, 0.7), math.inf])
def test_hessians_in_the_cost_and_the_weights_agree_with_finite_differences(reference, tau, clouds):
    x, y = clouds
    cost = squares(x, y)[:, :4].detach().requires_grad_()
    settings = {"epsilon": 0.3, "tau": tau, "reference": reference, "tol": 1e-15}
    inputs = (cost,) if tau == math.inf else (cost, positive(5, 1), positive(4, 2))
    assert torch.autograd.gradgradcheck(
        lambda *inputs: jumbot.solve(*inputs, **settings).value, inputs, eps=1e-4, atol=1e-5
    )


def test_hessians_with_forbidden_pairs_batches_and_a_reference_of_ones_own(clouds):
    x, y = clouds
    cost, R = squares(x, y).detach(), positive(25, 3).detach().reshape(5, 5)
    blocked = torch.eye(5, dtype=torch.bool)
    blocked[2] = True  # a row that nothing can be matched to

    def value(c):
        batch = torch.stack([c, 2 * c]).masked_fill(blocked, math.inf)
        return jumbot.solve(batch, epsilon=0.3, tau=1.0, tol=1e-15, reference=R).value

    assert torch.autograd.gradgradcheck(value, (cost.requires_grad_(),), eps=1e-4, atol=1e-5)


def test_a_hessian_is_symmetric_and_concave_and_has_its_products(clouds):
    x, y = clouds
    cost = squares(x, y).detach()

    def value(c):
        return jumbot.solve(c, epsilon=0.3, tau=1.0, tol=1e-14).value

    H = torch.autograd.functional.hessian(value, cost).reshape(25, 25)
    torch.testing.assert_close(H, H.mT, rtol=0, atol=1e-12)
    assert torch.linalg.eigvalsh(H).max() < 1e-10 < 1e-3 < H.abs().max()
    _, product = torch.autograd.functional.hvp(value, cost, torch.ones_like(cost))
    torch.testing.assert_close(product.reshape(-1), H.sum(1))


GROUNDS = {
    "sqeuclidean": (2, 1.0),
    "five coordinates": (5, 1.0),
    "by products": (10, 0.6),
    "euclidean": (2, 1.0),
    "cosine": (3, 1.0),
    "wfr": (2, 0.3),
    "callable": (2, 0.7),
}


@pytest.mark.parametrize("name", GROUNDS)
@pytest.mark.parametrize("tau", [1.0, math.inf])
def test_hessians_in_the_points_agree_with_finite_differences(name, tau):
    d, scale = GROUNDS[name]
    ground = {"callable": lambda u, v: (u[:, None] - v).abs().pow(3).sum(-1)}.get(name, name)
    ground = "sqeuclidean" if name in ("five coordinates", "by products") else ground
    generator = torch.Generator().manual_seed(4)
    x, y = (scale * torch.randn(n, d, dtype=torch.float64, generator=generator) for n in (7, 9))
    inputs = [x, y] if tau == math.inf else [x, y, positive(7, 5).detach(), positive(9, 6).detach()]
    moves = [torch.randn(z.shape, dtype=z.dtype, generator=generator) for z in inputs]

    def slopes(step, graph=False):
        at = [(z + step * move).requires_grad_() for z, move in zip(inputs, moves, strict=True)]
        value = jumbot.solve_sample(*at, cost=ground, epsilon=0.5, tau=tau, tol=1e-14).value
        return at, torch.autograd.grad(value, at, create_graph=graph)

    at, graphed = slopes(0.0, graph=True)
    found = torch.autograd.grad(sum((u * v).sum() for u, v in zip(graphed, moves, strict=True)), at)
    (_, after), (_, before) = slopes(1e-4), slopes(-1e-4)
    for product, u, v in zip(found, after, before, strict=True):
        torch.testing.assert_close(product, (u - v) / 2e-4, rtol=1e-4, atol=1e-5 * float(product.abs().max()))


def test_hessians_in_the_points_are_those_in_the_cost_where_blocks_are_left_out():
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(2500, 2, dtype=torch.float64, generator=generator).requires_grad_()
    y = torch.rand(2300, 2, dtype=torch.float64, generator=generator)
    move = torch.randn(x.shape, dtype=x.dtype, generator=generator)
    settings = {"epsilon": 0.001, "tau": 0.01, "tol": 1e-12}
    solution = jumbot.solve_sample(x, y, **settings)
    assert solution.kept < 0.5
    products = []
    for value in (solution.value, jumbot.solve(squares(x, y), **settings).value):
        (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        products.append(torch.autograd.grad((gradient * move).sum(), x)[0])
    torch.testing.assert_close(*products, rtol=1e-4, atol=1e-4 * float(products[1].abs().max()))


@pytest.mark.parametrize("tau", [1.0, math.inf])
def test_hessians_of_the_divergence_agree_with_finite_differences(tau, clouds):
    x, y = (z.detach().clone().requires_grad_() for z in clouds)
    for other in (y, torch.cat([y, y + 1]).detach().requires_grad_()):  # as many points, and others
        assert torch.autograd.gradgradcheck(
            lambda x, y: jumbot.sinkhorn_divergence(x, y, epsilon=0.5, tau=tau, tol=1e-13),
            (x, other),
            eps=1e-4,
            atol=1e-5,
        )


def test_weights_of_balanced_problems_and_zero_weights_are_refused_and_costs_are_not(clouds):
    cost = squares(*clouds).detach().requires_grad_()
    a, zero = torch.full((5,), 0.2, dtype=torch.float64), torch.tensor([0.5, 0.5, 0, 0, 0], dtype=torch.float64)
    for weights, tau, why in ((a, math.inf, "balanced"), (zero, 1.0, "zero")):
        weights = weights.clone().requires_grad_()
        value = jumbot.solve(cost, weights, a, epsilon=0.1, tau=tau).value
        in_cost, in_weights = torch.autograd.grad(value, (cost, weights), create_graph=True)
        torch.autograd.grad(in_cost.square().sum(), cost, retain_graph=True)
        for asked in (in_cost.square().sum(), in_weights.square().sum()):
            with pytest.raises(jumbot.errors.UnsupportedError, match=why):
                torch.autograd.grad(asked, weights, retain_graph=True)


def test_third_derivatives_are_refused(clouds):
    cost = squares(*clouds).detach().requires_grad_()
    value = jumbot.solve(cost, epsilon=0.1, tau=1.0).value
    (gradient,) = torch.autograd.grad(value, cost, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), cost, create_graph=True)
    with pytest.raises(jumbot.errors.UnsupportedError, match="third derivatives"):
        second.sum().backward()


@pytest.mark.parametrize("name", CALLS)
def test_a_first_derivative_is_the_same_with_a_graph(name, clouds):
    x, y = clouds
    (plain,) = torch.autograd.grad(CALLS[name](x, y), x)
    (graphed,) = torch.autograd.grad(CALLS[name](x, y), x, create_graph=True)
    torch.testing.assert_close(graphed.detach(), plain, rtol=1e-12, atol=1e-14)
    assert not plain.requires_grad
    (graphed.detach().square().sum() + x.sum()).backward()
    torch.testing.assert_close(x.grad, torch.ones_like(x))


@pytest.mark.parametrize("ground", [squared_euclidean, euclidean])
def test_ground_costs_can_be_differentiated_twice(ground, clouds):
    x, y = clouds
    assert torch.autograd.gradgradcheck(ground, (x, y.requires_grad_()))


def test_where_points_coincide_second_derivatives_are_finite(clouds):
    x, _ = clouds
    (gradient,) = torch.autograd.grad(euclidean(x, x.detach()).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), x)
    assert bool(second.isfinite().all())


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.grad, torch.func.jacrev])
def test_transforms_of_functions_are_refused(transform):
    costs = torch.rand(3, 4, 4)
    with refused(r"torch\.func"):
        transform(lambda cost: jumbot.solve(cost, epsilon=0.1, tau=1.0).value.sum())(costs)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of torch's own first dual tensor
@pytest.mark.parametrize("argument", ["cost", "a", "b", "x", "y"])
def test_forward_derivatives_are_refused_rather_than_lost(argument, clouds):
    x, y = (points.detach() for points in clouds)
    uniform = [torch.full((len(points),), 1 / len(points), dtype=torch.float64) for points in (x, y)]
    given = dict(zip("xyab", (x, y, *uniform), strict=True)) | {"cost": squares(x, y)}
    with forward_ad.dual_level():
        given[argument] = forward_ad.make_dual(given[argument], torch.ones_like(given[argument]))
        calls = [lambda: jumbot.solve(given["cost"], given["a"], given["b"], epsilon=0.1, tau=1.0)]
        if argument != "cost":
            points = [given[name] for name in "xyab"]
            calls = calls if argument in "ab" else []
            calls += [lambda: jumbot.sinkhorn_divergence(*points, epsilon=0.1, tau=1.0)]
            calls += [lambda: jumbot.solve_sample(*points, epsilon=0.1, tau=1.0)]
        for call in calls:
            with refused("tangent") as error:
                call()
            assert error.value.argument == argument


@pytest.mark.parametrize("field", ["value", "linear"])
def test_what_the_gradient_is_multiplied_with_can_be_differentiated(field, clouds):
    cost = squares(*clouds).detach().requires_grad_()
    weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    solution = jumbot.solve(cost, epsilon=0.1, tau=1.0)
    (gradient,) = torch.autograd.grad(weight * getattr(solution, field), cost, create_graph=True)
    (found,) = torch.autograd.grad(gradient.sum() + weight**2, weight)
    torch.testing.assert_close(found, 4 + solution.mass)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_with_a_graph_can_be_written_to(name, clouds):
    x, y = clouds
    (gradient,) = torch.autograd.grad(CALLS[name](x, y), x, create_graph=True)
    gradient.mul_(2)


@pytest.mark.parametrize("field", ["value", "linear"])
def test_a_cost_that_takes_up_its_own_value_is_freed(field, clouds):
    cost = squares(*clouds)
    solution = jumbot.solve(cost, epsilon=0.1, tau=1.0)
    cost += getattr(solution, field)
    seen = weakref.ref(cost)
    del cost, solution
    gc.collect()
    assert seen() is None
