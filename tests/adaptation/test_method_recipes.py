"""What recipes give to single methods, and who has the last word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jumbot._settings.recipes import RECIPES
from jumbot.adaptation._adapt import adapt
from jumbot.adaptation._config import make_config
from jumbot.adaptation._training.loop import Trainer
from jumbot.methods import METHODS

IMAGES = ("office-home", "office-home-partial", "visda")
FEATURES = ("table", "table-partial", "photographs")


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("method", METHODS)
def test_every_recipe_fits_every_method(recipe: str, method: str) -> None:
    config = make_config(None, method, recipe, {})
    assert config.training.sampler == ("stratified" if method in ("jumbot", "deepjdot", "etn") else "shuffled")
    assert make_config(None, method, recipe, {"sampler": "stratified"}).training.sampler == "stratified"


@pytest.mark.parametrize("recipe", [*IMAGES, *FEATURES])
def test_values_of_the_authors(recipe: str) -> None:
    """Rates, decays and schedules as each method's authors publish them; a value that is given wins."""

    def training(method: str, **changes: Any) -> Any:
        return make_config(None, method, recipe, changes).training

    assert (training("etn").learning_rate, training("etn").weight_decay) == (0.001, 5e-4)
    assert training("etn").learning_rate * training("etn").backbone_rate == pytest.approx(1e-4)
    assert (training("pada").learning_rate, training("pada").weight_decay) == (0.003, 5e-4)
    assert (training("ba3us").learning_rate, training("ba3us").weight_decay) == (0.01, 5e-4)
    rot = training("rot")
    assert (rot.learning_rate, rot.backbone_rate, rot.optimizer, rot.weight_decay) == (5e-4, 1.0, "sgd", 5e-4)
    assert make_config(None, "rot", recipe, {}).options.critic_rate == 1e-4  # type: ignore[attr-defined]
    for method in ("jumbot", "deepjdot", "dann", "cdan-e", "alda", "mcc", "source-only"):
        assert (training(method).learning_rate, training(method).weight_decay) == (0.01, 0.001)
    assert training("etn", learning_rate=0.01).learning_rate == 0.01


def test_partial_settings() -> None:
    for recipe in ("table-partial", "office-home-partial"):
        assert make_config(None, "jumbot", recipe, {}).options.eta3 == 10.0  # type: ignore[attr-defined]
        assert make_config(None, "deepjdot", recipe, {}).options.eta3 == 1.0  # type: ignore[attr-defined]
    assert make_config(None, "mcc", "visda", {}).options.temperature == 3.0  # type: ignore[attr-defined]
    assert make_config(None, "mcc", "office-home", {}).options.temperature == 2.5  # type: ignore[attr-defined]


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
