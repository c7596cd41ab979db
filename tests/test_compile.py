"""`torch.compile` of a training step: one break of its graph, and the same numbers."""

import pytest
import torch

import jumbot


def steps():
    torch.manual_seed(0)
    network = torch.nn.Linear(4, 3)
    loss = jumbot.JointTransportLoss(0.1, 0.1, tau=0.5, epsilon=0.05)
    labels = torch.arange(8) % 3

    def joint(x, y):
        source, target = network(x), network(y)
        return loss(source * 2, labels, target * 2, target).loss * 2 + source.sum()

    def plain(x, y):
        cost = (network(x)[:, None] - network(y)).square().sum(-1)
        return jumbot.solve(cost, epsilon=0.1, tau=1.0).value * 2

    def linear(x, y):
        cost = (network(x)[:, None] - network(y)).square().sum(-1)
        solution = jumbot.solve(cost, epsilon=0.1, tau=1.0)
        return solution.linear + (solution.plan * cost).sum() + solution.mass

    def divergence(x, y):
        return jumbot.sinkhorn_divergence(network(x), network(y), epsilon=0.1, tau=1.0) * 2

    return {"JointTransportLoss": joint, "solve": plain, "linear": linear, "sinkhorn_divergence": divergence}


NAMES = ["JointTransportLoss", "solve", "linear", "sinkhorn_divergence"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_one_break_of_the_graph(name):
    step, x, y = steps()[name], torch.randn(8, 4), torch.randn(8, 4)
    torch._dynamo.reset()
    assert torch._dynamo.explain(step)(x, y).graph_break_count <= 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_the_same_gradients(name):
    step, (x, y) = steps()[name], (torch.randn(8, 4, requires_grad=True), torch.randn(8, 4))
    torch._dynamo.reset()
    (expected,) = torch.autograd.grad(step(x, y), x)
    (compiled,) = torch.autograd.grad(torch.compile(step, backend="eager")(x, y), x)
    torch.testing.assert_close(compiled, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_whole_graph_is_refused_in_our_words(name):
    step, x, y = steps()[name], torch.randn(8, 4), torch.randn(8, 4)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="fullgraph=True"):
        torch.compile(step, backend="eager", fullgraph=True)(x, y)
