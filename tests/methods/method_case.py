"""What every method must do, whatever its mathematics: one case for all registered methods and for the example."""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jumbot._settings.training import Inputs, Training
from jumbot.adaptation._networks.build import NetworkOptions, table_network
from jumbot.methods import make_method, method_class
from jumbot.methods.base import Batch, Method, TargetOutputs, Terms
from jumbot.methods.network import Network
from tests.refusals import refused

WIDTH = 6
#: the sums of ETN's auxiliary classifier want smaller steps
RATES = {"etn": 0.004}


def blobs(classes: int, count: int, shift: float, seed: int) -> tuple[Tensor, Tensor]:
    """`count` points around each of `classes` centres, all moved by `shift` along the first axis."""
    generator = torch.Generator().manual_seed(seed)
    centres = 4 * torch.eye(WIDTH)[:classes]
    labels = torch.arange(classes).repeat_interleave(count)
    points = centres[labels] + 0.7 * torch.randn(classes * count, WIDTH, generator=generator)
    points[:, -1] += shift
    return points, labels


@dataclass(frozen=True)
class Toy:
    """A source of blobs, and the same blobs moved as the target; target labels are for the final score alone."""

    classes: int = 3

    @cached_property
    def source(self) -> tuple[Tensor, Tensor]:
        return blobs(self.classes, 30, 0.0, seed=1)

    @cached_property
    def target(self) -> tuple[Tensor, Tensor]:
        return blobs(self.classes, 20, 2.0, seed=2)

    def batch(self, step: int, progress: float = 0.0, size_s: int = 12, size_t: int = 12) -> Batch:
        generator = torch.Generator().manual_seed(step)
        rows = torch.randperm(len(self.source[0]), generator=generator)[:size_s]
        index = torch.randperm(len(self.target[0]), generator=generator)[:size_t]
        points, labels = self.source
        return Batch(points[rows], labels[rows], self.target[0][index], progress, step, index)

    def accuracy(self, network: Network) -> float:
        with torch.no_grad():
            _, logits = network(self.target[0])
        return float((logits.argmax(1) == self.target[1]).float().mean())


def build(name: str, classes: int = 3, seed: int = 0) -> tuple[Network, Method]:
    torch.manual_seed(seed)
    network = table_network(WIDTH, classes, features=8, hidden=(16,))
    known = {field.name for field in dataclasses.fields(method_class(name).Options)}
    quick = {"discriminator_width": 64, "auxiliary_width": 64, "reversal_steps": None}  # the ramp follows the progress
    options = {option: value for option, value in quick.items() if option in known}
    return network, make_method(name, options, features=8, classes=classes)


def outputs(network: Network, toy: Toy) -> TargetOutputs:
    with torch.no_grad():
        embeddings, logits = network(toy.target[0])
    return TargetOutputs(embeddings, logits)


def train(network: Network, method: Method, toy: Toy, steps: int = 30, speed: float = 1.0) -> list[Terms]:
    """Plain SGD, as a trainer would do it: a look at the whole target at the start and now and then."""
    rate = RATES.get(method.name, 0.02)
    optimiser = torch.optim.SGD([*network.parameters(), *method.parameters()], lr=rate, momentum=0.9)
    history = []
    for step in range(steps):
        if method.refresh_every and step % 10 == 0:
            method.refresh(outputs(network, toy))
        torch.manual_seed(step)
        terms = method.terms(network, toy.batch(step, speed * step / steps))
        optimiser.zero_grad()
        terms.total.backward()
        optimiser.step()
        history.append(terms)
    return history


class MethodCase:
    """Subclass it with `name`, or parametrise `name`, to put a method to these tests."""

    @pytest.fixture
    def name(self) -> str:
        raise NotImplementedError

    def test_registered_under_its_own_name(self, name: str) -> None:
        cls = method_class(name)
        assert cls.name == name
        assert cls.__doc__
        assert make_method(name, features=8, classes=3).options == cls.Options()

    def test_options_are_documented(self, name: str) -> None:
        cls = method_class(name).Options
        assert cls.__doc__
        assert not cls.__doc__.startswith(f"{cls.__name__}(")  # what dataclass writes where nobody did
        with pytest.raises(dataclasses.FrozenInstanceError):
            cls().anything = 1

    def test_options_have_names_of_their_own(self, name: str) -> None:
        """Settings are given by name alone, so an option of a method must not be one of the training or network."""
        taken = {field.name for part in (Training, NetworkOptions, Inputs) for field in dataclasses.fields(part)}
        assert not taken & {field.name for field in dataclasses.fields(method_class(name).Options)}

    def test_wrong_options_are_named(self, name: str) -> None:
        with refused("wait"):
            make_method(name, {"wait": 1}, features=8, classes=3)
        cls = method_class(name).Options
        kinds = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            for wrong in wrong_values(kinds[field.name]):
                with refused(f"^{field.name}: "):
                    make_method(name, {field.name: wrong}, features=8, classes=3)

    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("sizes", [(12, 12), (12, 5), (4, 9), (1, 1)])
    def test_terms(self, name: str, classes: int, sizes: tuple[int, int]) -> None:
        toy = Toy(classes)
        network, method = build(name, classes)
        for progress in (0.0, 0.5, 1.0):
            terms = method.terms(network, toy.batch(0, progress, *sizes))
            assert next(iter(terms.losses)) == "source"
            for loss in terms.losses.values():
                assert loss.shape == ()
                assert loss.dtype == torch.float32
                assert torch.isfinite(loss)
            assert terms.total.detach() == pytest.approx(sum(v.item() for v in terms.losses.values()), abs=1e-4)
            if terms.plan is not None:
                assert terms.plan.shape == sizes
                assert not terms.plan.requires_grad

    def test_class_absent_from_the_minibatch(self, name: str) -> None:
        toy = Toy()
        network, method = build(name)
        points, labels = toy.source
        present = labels != 1
        terms = method.terms(network, Batch(points[present][:10], labels[present][:10], toy.target[0][:10]))
        terms.total.backward()
        assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)

    def test_gradients_reach_everything(self, name: str) -> None:
        network, method = build(name)
        toy = Toy()
        for step in range(10):
            method.terms(network, toy.batch(step, 0.5)).total.backward()
        for label, parameter in [*network.named_parameters(), *method.named_parameters()]:
            assert parameter.grad is not None, label
            assert torch.isfinite(parameter.grad).all(), label
            assert parameter.grad.abs().sum() > 0, label

    def test_confident_predictions_stay_finite(self, name: str) -> None:
        network, method = build(name)
        with torch.no_grad():
            network.classifier.weight.mul_(1e4)
        terms = method.terms(network, Toy().batch(0, 0.5))
        terms.total.backward()
        assert torch.isfinite(terms.total)
        assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)

    def test_same_seed_same_weights(self, name: str) -> None:
        first, second = (build(name, seed=3) for _ in range(2))
        for network, method in (first, second):
            train(network, method, Toy(), steps=12)
        for a, b in zip(first, second, strict=True):
            assert_equal_states(a, b)

    def test_state_round_trip(self, name: str) -> None:
        """A run that is saved half-way and loaded into fresh objects goes on as if nothing had happened."""
        toy = Toy()
        network, method = build(name)
        train(network, method, toy, steps=21)
        again_network, again_method = build(name, seed=7)
        again_network.load_state_dict(network.state_dict())
        again_method.load_state_dict(method.state_dict())
        assert_equal_states(method, again_method)
        for net, meth in ((network, method), (again_network, again_method)):
            train(net, meth, toy, steps=3)
        assert_equal_states(network, again_network)
        assert_equal_states(method, again_method)

    def test_refresh_leaves_the_mode_and_the_gradients_alone(self, name: str) -> None:
        network, method = build(name)
        for _ in range(2):
            method.refresh(outputs(network, Toy()))
        assert all(module.training for module in method.modules())
        assert all(p.grad is None for p in method.parameters())
        assert not any(b.requires_grad for b in method.buffers())

    @pytest.mark.parametrize("classes", [2, 3])
    def test_learns(self, name: str, classes: int) -> None:
        toy = Toy(classes)
        network, method = build(name, classes)
        sources = [terms.losses["source"].item() for terms in train(network, method, toy)]
        assert sum(sources[-5:]) < 0.7 * sum(sources[:5])
        assert toy.accuracy(network) > 1 / classes

    @pytest.mark.parametrize("classes", [2, 3])
    def test_total_falls(self, name: str, classes: int) -> None:
        """At progress 0 nothing is reversed yet, so all parameters go down the same loss."""
        network, method = build(name, classes)
        totals = [terms.total.item() for terms in train(network, method, Toy(classes), speed=0.0)]
        assert sum(totals[-5:]) < sum(totals[:5])


def wrong_values(kind: Any) -> list[Any]:
    """Values that no option of this type can take."""
    if NoneType in typing.get_args(kind):
        (kind,) = (k for k in typing.get_args(kind) if k is not NoneType)
    if kind is float:
        return [-1.0, math.nan, "much"]
    if kind is int:
        return [0, 1.5, "many"]
    return ["nonsense"]


def assert_equal_states(a: nn.Module, b: nn.Module) -> None:
    states = a.state_dict(), b.state_dict()
    assert states[0].keys() == states[1].keys()
    for key in states[0]:
        assert torch.equal(states[0][key], states[1][key]), key
