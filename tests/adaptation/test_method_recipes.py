"""What recipes give to single methods, and who has the last word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from jumbot._settings.recipes import RECIPES
from jumbot.adaptation._adapt import adapt
from jumbot.adaptation._config import make_config
from jumbot.adaptation._networks.build import table_network
from jumbot.adaptation._training.loop import Trainer
from jumbot.adaptation._training.parts import make_optimizers
from jumbot.methods import METHODS, make_method
from tests.refusals import refused

IMAGES = ("office-home", "office-home-partial", "visda")
FEATURES = ("table", "table-partial", "photographs")
TRANSPORT = ("jumbot", "deepjdot", "m-pot", "elot")


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("method", METHODS)
def test_every_recipe_fits_every_method(recipe: str, method: str) -> None:
    config = make_config(None, method, recipe, {})
    assert config.training.sampler == ("stratified" if method in (*TRANSPORT, "etn") else "shuffled")
    assert make_config(None, method, recipe, {"sampler": "stratified"}).training.sampler == "stratified"


@pytest.mark.parametrize("recipe", [*IMAGES, *FEATURES])
def test_values_of_the_authors(recipe: str) -> None:
    """Rates, decays and schedules as each method's authors publish them; a value that is given wins."""

    def training(method: str, **changes: Any) -> Any:
        return make_config(None, method, recipe, changes).training

    assert (training("etn").learning_rate, training("etn").weight_decay) == (0.001, 5e-4)
    assert training("etn").learning_rate * training("etn").backbone_rate == pytest.approx(1e-4)
    assert (training("pada").learning_rate, training("pada").weight_decay) == (0.003, 5e-4)
    rot = training("rot")
    assert (rot.learning_rate, rot.backbone_rate, rot.optimizer, rot.weight_decay) == (5e-4, 1.0, "sgd", 5e-4)
    assert make_config(None, "rot", recipe, {}).options.critic_rate == 1e-4  # type: ignore[attr-defined]
    # BA3US: 5e-4 in its options, and every group of its parameters doubles it
    for method in (*TRANSPORT, "dann", "cdan-e", "alda", "mcc", "source-only", "ba3us"):
        if (method, recipe) == ("mcc", "visda"):
            assert training(method).learning_rate == 0.003
            continue
        assert (training(method).learning_rate, training(method).weight_decay) == (0.01, 0.001)
    assert training("etn", learning_rate=0.01).learning_rate == 0.01


def test_partial_settings() -> None:
    for recipe in ("table-partial", "office-home-partial"):
        assert make_config(None, "jumbot", recipe, {}).options.eta3 == 10.0  # type: ignore[attr-defined]
        assert make_config(None, "deepjdot", recipe, {}).options.eta3 == 1.0  # type: ignore[attr-defined]
    assert make_config(None, "mcc", "visda", {}).options.temperature == 3.0  # type: ignore[attr-defined]
    assert make_config(None, "mcc", "office-home", {}).options.temperature == 2.5  # type: ignore[attr-defined]


@pytest.mark.parametrize("recipe", RECIPES)
def test_on_the_papers_photographs_rivals_are_as_published(recipe: str) -> None:
    def options(method: str) -> Any:
        return make_config(None, method, recipe, {}).options

    published = recipe in IMAGES
    assert options("cdan-e").entropy_gradient is published
    assert {options(name).refresh_every for name in ("pada", "ba3us", "rot")} == {500 if published else None}
    original = (options("deepjdot").eta1, options("deepjdot").eta2) == (0.001, 0.0001)
    assert original is published


def test_published_settings_of_mpot() -> None:
    def options(recipe: str) -> Any:
        return make_config(None, "m-pot", recipe, {}).options

    assert {name: options(name).mass for name in ("digits", "office-home", "visda")} == {
        "digits": 0.85,
        "office-home": 0.5,
        "visda": 0.75,
    }
    assert options("office-home").epsilon == options("visda").epsilon == 0.0
    partial = options("office-home-partial")
    assert (partial.mass, partial.mass_ramp, partial.epsilon, partial.eta3) == (0.325, 0.5, 0.05, 10.0)


@pytest.mark.parametrize("recipe", RECIPES)
def test_elot_reaches_as_far_as_jumbot(recipe: str) -> None:
    jumbot, elot = (make_config(None, name, recipe, {}).options for name in ("jumbot", "elot"))
    assert elot.reward == 2 * jumbot.tau  # type: ignore[attr-defined]


def test_weights_of_deepjdots_authors_on_other_data() -> None:
    options: Any = make_config(None, "deepjdot", "table", {"cost_weights": "original"}).options
    assert (options.eta1, options.eta2, options.scale, options.eta3) == (0.001, 0.0001, None, 1.0)
    recipe: Any = make_config(None, "deepjdot", "table", {}).options
    assert (recipe.eta1, recipe.eta2, recipe.scale) == (0.01, 0.5, "auto")
    with refused("eta1"):
        make_config(None, "deepjdot", "table", {"cost_weights": "original", "eta1": 0.01})
    given: Any = make_config(None, "deepjdot", "office-home", {"eta1": 0.01}).options
    assert (given.eta1, given.eta2) == (0.01, 0.0001)


def test_adam_has_a_weight_decay_where_one_is_given() -> None:
    def decay(recipe: str, **changes: Any) -> float:
        return make_config(None, "jumbot", recipe, changes).training.weight_decay

    assert decay("digits") == decay("table", optimizer="adam") == 0.0
    assert decay("digits", weight_decay=5e-4) == decay("table", optimizer="adam", weight_decay=5e-4) == 5e-4
    assert decay("table", optimizer="adamw") == decay("table") == 0.001


def test_weight_decay_of_adam_is_an_l2_penalty() -> None:
    """The first step of Adam is the rate times the sign of the gradient, to which the decay belongs."""
    network = table_network(3, 2, features=4)
    method = make_method("source-only", features=4, classes=2)
    training = make_config(None, "source-only", "digits", {"weight_decay": 0.1, "learning_rate": 0.01}).training
    optimizer = make_optimizers(network, method, training)["optimizer"]
    before = [p.detach().clone() for p in network.parameters()]
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for old, new in zip(before, network.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old - 0.01 * old.sign(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "last"),
    [({}, 10**-0.75), ({"schedule_steps": 18}, 6**-0.75), ({"schedule": "constant"}, 1.0)],
)
def test_schedule_in_steps(options: Any, last: float, blobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """(1 + 10 i / schedule_steps)^-.75 at step i of the adaptation, whatever was before it and comes after it."""
    rates: list[float] = []
    step = Trainer._one

    def note(self: Trainer, *arguments: Any) -> None:
        step(self, *arguments)
        rates.append(self.optimizers["optimizer"].param_groups[0]["lr"])

    monkeypatch.setattr(Trainer, "_one", note)
    source, target = blobs()
    adapt(source, target, method="source-only", recipe="table", steps=10, source_steps=3, learning_rate=0.02, **options)
    assert rates[:4] == [0.02] * 4
    assert rates[-1] == pytest.approx(0.02 * last)


@pytest.mark.parametrize(
    ("recipe", "steps", "ends"), [("office-home", 10_000, 0.166), ("office-home-partial", 5000, 0.261)]
)
def test_published_end_of_the_schedule(recipe: str, steps: int, ends: float) -> None:
    """lr (1 + .001 i)^-.75: .17 of the rate after 10,000 iterations, .26 after 5,000."""
    training = make_config(None, "jumbot", recipe, {}).training
    assert training.steps == steps
    assert (1 + 10 * steps / training.schedule_steps) ** -0.75 == pytest.approx(ends, abs=1e-3)  # type: ignore[operator]


@pytest.mark.parametrize("sampler", ["stratified", "shuffled"])
def test_source_minibatches(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from jumbot.methods.jumbot import Jumbot

    seen: list[np.ndarray] = []
    terms = Jumbot.terms

    def note(self: Jumbot, network: Any, batch: Any) -> Any:
        seen.append(np.bincount(batch.labels.numpy(), minlength=2))
        return terms(self, network, batch)

    monkeypatch.setattr(Jumbot, "terms", note)
    rng = np.random.default_rng(0)
    y = (np.arange(100) < 20).astype(int)  # a fifth of the source
    adapt(
        (rng.normal(size=(100, 3)), y),
        rng.normal(size=(50, 3)),
        steps=10,
        batch_size=20,
        sampler=sampler,
        method="jumbot",
        judge=False,
    )
    counts = np.stack(seen)
    assert (counts.sum(1) == 20).all()
    if sampler == "stratified":
        assert (counts == 10).all()
    else:  # two passes over all samples
        assert counts[:5].sum(0).tolist() == counts[5:].sum(0).tolist() == [80, 20]
        assert len(np.unique(counts[:, 0])) > 1
