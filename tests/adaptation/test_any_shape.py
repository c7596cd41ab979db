"""Signals, volumes, tokens and multispectral images from `adapt` to `predict` and `load`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import jumbot
from jumbot.adaptation._config import make_config
from jumbot.adaptation._judging import how_judged
from jumbot.adaptation._networks.stems import signal_network
from jumbot.data import as_domain
from tests.refusals import refused

SHORT: dict[str, Any] = {"source_steps": 3, "steps": 3, "batch_size": 12, "evaluate_every": 3}


def _waves(rng: np.random.Generator, n: int, drift: float) -> tuple[np.ndarray, np.ndarray]:
    """Two channels of waves whose frequency is the class, at random phases, on a slope."""
    labels = np.arange(n) % 3
    time = np.linspace(0, 1, 64)
    phase = rng.uniform(0, 2 * np.pi, (n, 2, 1))
    waves = np.sin(2 * np.pi * (3 + 3 * labels[:, None, None]) * time + phase)
    return waves + drift * time + 0.3 * rng.normal(size=waves.shape), labels


def test_signals_are_adapted_to_a_drift(rng: np.random.Generator, tmp_path: Path) -> None:
    source, target = _waves(rng, 240, 0.0), _waves(rng, 240, 2.0)
    model = jumbot.adapt(
        source,
        target[0],
        kind="signal",
        source_steps=60,
        steps=60,
        batch_size=60,
        evaluate_on=target,
        method="jumbot",
        judge=False,
    )
    assert model.spec["kind"] == "signal"
    assert model.evaluate(target).accuracy > 0.9
    saved = jumbot.load(model.save(tmp_path))
    np.testing.assert_array_equal(saved.predict(target[0]), model.predict(target[0]))
    assert saved.predict(target[0][0]).shape == (1,)  # one signal
    with refused(r"\(2, 60\).*\(2, 64\)"):
        saved.predict(target[0][:, :, 4:])


def test_the_signal_network_does_not_see_where_a_pattern_stands() -> None:
    network = signal_network((1, 128), 2).eval()
    x = torch.zeros(2, 1, 128)
    x[0, 0, 48:56], x[1, 0, 64:72] = 1, 1
    embeddings, _ = network(x)
    torch.testing.assert_close(embeddings[0], embeddings[1])
    assert embeddings.shape == (2, 128)
    with refused(r"\b7\b"):
        signal_network((1, 7), 2)


class _Tokens(nn.Module):
    """The mean of embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.embedding(x).mean(1)


def test_tokens_reach_the_users_backbone_as_whole_numbers(rng: np.random.Generator, tmp_path: Path) -> None:
    labels = np.arange(48) % 2
    tokens = rng.integers(0, 25, (48, 9)) + 25 * labels[:, None]
    model = jumbot.adapt(
        (tokens, labels), tokens, kind="raw", backbone=_Tokens(), **SHORT, method="jumbot", judge=False
    )
    again = jumbot.load(model.save(tmp_path), backbone=_Tokens())
    np.testing.assert_array_equal(again.predict_proba(tokens), model.predict_proba(tokens))


def test_volumes_are_no_stacks_of_views(rng: np.random.Generator) -> None:
    labels = np.arange(24) % 2
    volumes = rng.normal(size=(24, 1, 4, 6, 6)) + labels[:, None, None, None, None]
    backbone = nn.Sequential(nn.Conv3d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(6))
    backbone(torch.zeros(1, 1, 4, 6, 6))
    model = jumbot.adapt(
        (volumes, labels), volumes, kind="raw", backbone=backbone, **SHORT, method="jumbot", judge=False
    )
    assert model.predict_proba(volumes).shape == (24, 2)
    assert model.predict(volumes[0]).shape == (1,)


def test_images_of_five_channels(rng: np.random.Generator) -> None:
    labels = np.arange(24) % 2
    images = rng.random((24, 16, 16, 5)) * 0.5 + 0.5 * labels[:, None, None, None]
    model = jumbot.adapt((images, labels), images, **SHORT, method="jumbot", judge=False)
    assert model.spec["shape"] == [5, 16, 16]
    assert model.predict(images[0]).shape == (1,)
    with refused(r"\b3\b.*\b5\b"):
        model.predict(images[..., :3])


def test_what_does_not_combine_is_refused(rng: np.random.Generator) -> None:
    signals, labels = _waves(rng, 24, 0.0)
    pair = signals, labels
    with refused("backbone"):
        jumbot.adapt(pair, signals, kind="raw", method="jumbot", judge=False)
    with refused("backbone"):
        jumbot.adapt(pair, signals, kind="signal", backbone="digits", method="jumbot", judge=False)
    with refused("freeze"):
        jumbot.adapt(pair, signals, kind="signal", backbone=nn.Flatten(), freeze=True, method="jumbot", judge=False)
    with refused("backbone"):
        jumbot.adapt((signals[:, 0], labels), signals[:, 0], backbone="signal", method="jumbot", judge=False)


def test_what_can_be_trained_again_is_judged_by_folds(rng: np.random.Generator) -> None:
    """A backbone of the user's cannot be: folds of another network would say nothing of it."""
    signals, labels = _waves(rng, 60, 0.0)
    for samples, how in ((signals, {"kind": "signal"}), (signals[:, 0], {})):
        source = as_domain(samples, labels, **how)
        config = make_config(source, "jumbot", None, {})
        assert how_judged(source, config, None, True)[0] == "folds"
        assert how_judged(source, config, None, True, own=True)[0] == "held-out"


def test_the_baseline_of_a_signal_run_is_trained_as_long(rng: np.random.Generator, tmp_path: Path) -> None:
    source, target = _waves(rng, 60, 0.0), _waves(rng, 60, 1.0)
    jumbot.adapt(source, target, kind="signal", method="jumbot", source_steps=5, steps=10, out=tmp_path / "run")
    assert "trained with the same" in json.loads((tmp_path / "run" / "baseline.json").read_text())["what"]
