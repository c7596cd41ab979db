"""Adaptation on a device: what runs where, on pretended ones and, where there is one, on a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import jumbot
from jumbot._settings.training import Training
from jumbot.adaptation import _adapt as adapt_module
from jumbot.adaptation._evaluation.diagnosis import diagnose
from jumbot.adaptation._networks.backbones import Backbone
from jumbot.adaptation._networks.features import Extractor
from jumbot.adaptation._training import accelerator as module
from jumbot.adaptation._training.accelerator import check_able, device_of, devices, make_accelerator
from jumbot.loss import EmbeddingScale
from jumbot.methods.network import Network
from jumbot.methods.rot import robust_weights
from tests.refusals import refused
from tests.transport.pretend import Device, Pretend

REAL = [
    pytest.param(name, marks=[pytest.mark.gpu, pytest.mark.skipif(not there, reason=f"needs the device {name}")])
    for name, there in {
        "cuda": torch.cuda.is_available(),
        "cuda:1": torch.cuda.device_count() > 1,
        "mps": torch.backends.mps.is_available(),
    }.items()
]


@pytest.mark.parametrize("device", REAL)
@pytest.mark.parametrize("method", ["jumbot", "deepjdot", "rot", "ba3us"])
def test_training_evaluation_and_diagnosis_on_a_device(blobs: Any, device: str, method: str) -> None:
    source, target = blobs()
    model = jumbot.adapt(source, target, method=method, device=device, steps=60, evaluate_every=20)
    assert model.results["accuracy"] > 0.8
    assert next(model.network.parameters()).device.type == "cpu"
    model.network.to(device)
    assert len(model.predict(np.zeros((4, 3), np.float32))) == 4


@pytest.mark.parametrize("device", REAL)
def test_frozen_features_on_a_device(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMBOT_CACHE", str(tmp_path))
    images = np.random.default_rng(0).integers(0, 255, (8, 70, 70, 3), dtype=np.uint8)
    backbone = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    options = {"backbone": backbone, "freeze": True, "steps": 2, "batch_size": 4, "recipe": "photographs"}
    jumbot.adapt((images, [0, 1] * 4), images, device=device, **options)


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda", "cuda:0", "cuda:1", "cuda:15", "mps"])
def test_names_of_devices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is taken where it is there, and refused by name where it is not."""
    training = Training(device=name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 16)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    check_able(training)
    assert device_of(training) == {"auto": "cuda:0", "cuda": "cuda:0"}.get(name, name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    if name in ("auto", "cpu"):
        check_able(training)
        assert device_of(training) == "cpu"
    else:
        with refused(f"device: '{name}'"):
            check_able(training)


def test_the_random_numbers_of_the_device_in_use_are_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert devices(torch.device("cuda")) == [1]
    assert devices(torch.device("cuda:3")) == [3]
    assert devices(torch.device("cpu")) == devices(torch.device("mps")) == []


def test_a_second_training_stays_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """accelerate remembers the device of the first, and would take it silently, or fail."""
    from accelerate.state import PartialState

    assert make_accelerator(Training(device="cpu"), None).device.type == "cpu"
    monkeypatch.setattr(PartialState, "default_device", torch.device("meta"))
    monkeypatch.setattr(module, "device_of", lambda training: "cpu" if training.device == "cpu" else "meta")
    assert make_accelerator(Training(device="auto"), None).device.type == "meta"
    assert make_accelerator(Training(device="cpu"), None).device.type == "cpu"


def test_figures_are_found_where_the_network_was_trained(blobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    finish, cpu = adapt_module.finish, Network.cpu

    def spy_finish(*given: Any) -> Any:
        seen.append("figures")
        return finish(*given)

    def spy_cpu(network: Network) -> Network:
        seen.append("cpu")
        return cpu(network)

    monkeypatch.setattr(adapt_module, "finish", spy_finish)
    monkeypatch.setattr(Network, "cpu", spy_cpu)
    jumbot.adapt(*blobs(), steps=2, method="jumbot", judge=False)
    assert seen == ["figures", "cpu"]


def test_features_to_predict_from_are_extracted_next_to_the_network() -> None:
    extractor = Extractor(Backbone("user", nn.Flatten(), 8), device="cuda:1")
    assert extractor.on_device_of(nn.Linear(2, 2)).device == "cuda:1"
    assert extractor.on_device_of(nn.Linear(2, 2, device="meta")).device == "meta"


def test_a_diagnosis_needs_no_float64_of_the_device(rng: np.random.Generator) -> None:
    z, labels = torch.tensor(rng.normal(size=(40, 3))).float(), np.arange(40) % 2
    z[labels == 1] += 6
    logits = z[:, :1] * torch.tensor([[-1.0, 1.0]])
    expected = diagnose(z, labels, z + 0.1, logits)[0]
    with Device():
        found = diagnose(Pretend(z), labels, Pretend(z + 0.1), Pretend(logits))[0]
    np.testing.assert_array_equal(found.received_mass, expected.received_mass)


def test_weights_of_rot_need_no_float64_of_the_device(rng: np.random.Generator) -> None:
    scores = torch.tensor(rng.random(20)).float()
    with Device():
        found = robust_weights(Pretend(scores), 0.2)
        assert isinstance(found, Pretend)
    assert torch.equal(found.held, robust_weights(scores, 0.2))


def test_a_look_at_embeddings_on_the_cpu_next_to_a_scale_on_the_device() -> None:
    """As evaluation does: the scale lives with the network, the embeddings have come back."""
    scale = EmbeddingScale(8.0).eval()
    scale.square = torch.tensor(2.0)
    z = torch.tensor([[0.0], [2.0]])
    expected = scale(z)
    with Device():
        scale.square = Pretend(torch.tensor(2.0))
        found = scale(z)
        assert not isinstance(found, Pretend)
    assert float(found) == float(expected) == 4.0
