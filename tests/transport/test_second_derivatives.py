"""Gradients that are differentiated again: right in the costs, refused in transport, and never silently a part."""

import gc
import weakref

import pytest
import torch

import jumbot
from jumbot.cost import euclidean, squared_euclidean

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


@pytest.mark.parametrize("name", CALLS)
def test_a_second_derivative_is_refused(name, clouds):
    """Of a gradient penalty only the part with the plan held fixed would come, and nobody would know."""
    x, y = clouds
    (gradient,) = torch.autograd.grad(CALLS[name](x, y), x, create_graph=True)
    with pytest.raises(jumbot.errors.UnsupportedError, match="differentiated again"):
        (x.sum() + gradient.square().sum()).backward()


@pytest.mark.parametrize("name", CALLS)
def test_a_first_derivative_is_the_same_with_a_graph(name, clouds):
    x, y = clouds
    (plain,) = torch.autograd.grad(CALLS[name](x, y), x)
    (graphed,) = torch.autograd.grad(CALLS[name](x, y), x, create_graph=True)
    torch.testing.assert_close(graphed.detach(), plain, rtol=0, atol=0)
    assert not plain.requires_grad
    (graphed.detach().square().sum() + x.sum()).backward()
    torch.testing.assert_close(x.grad, torch.ones_like(x))


def test_hessians_are_not_zeros(clouds):
    x, y = clouds
    with pytest.raises(jumbot.errors.UnsupportedError):
        torch.autograd.functional.hessian(
            lambda cost: jumbot.solve(cost, epsilon=0.1).value, torch.cdist(x, y).detach()
        )


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
    with pytest.raises(jumbot.errors.ArgumentError, match=r"torch\.func"):
        transform(lambda cost: jumbot.solve(cost, epsilon=0.1, tau=1.0).value.sum())(costs)


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
