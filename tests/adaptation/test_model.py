"""What `jumbot.adapt` returns: predictions, saving and loading without code, backbones of the user, small classes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import jumbot
from jumbot.adaptation._networks.build import NetworkOptions, digits_network, make_network, table_network
from tests.refusals import refused


def test_parameters_of_the_papers_network() -> None:
    for shape, count in (((3, 32, 32), 551_466), ((1, 28, 28), 436_202), ((3, 28, 28), 436_778)):
        assert sum(p.numel() for p in digits_network(shape).parameters()) == count
    network = digits_network((1, 28, 28))
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert [m.out_channels for m in convolutions] == [32, 32, 64, 64, 128, 128]
    assert float(convolutions[3].weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert float(network.classifier.weight.detach().std()) == pytest.approx(0.1, rel=0.1)
    assert float(network.classifier.bias.detach().abs().max()) == 0
    z = network.eval()(torch.zeros(2, 1, 28, 28))[0].detach()
    assert 0 < float(z.min()) <= float(z.max()) < 1
    with refused("too small"):
        digits_network((1, 4, 4))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_digits_network_lays_images_out_for_bfloat16(channels: int) -> None:
    torch.manual_seed(0)
    network, images = digits_network((channels, 16, 16)).eval(), torch.rand(4, channels, 16, 16)
    seen: list[torch.Tensor] = []
    network.backbone[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    exact = network(images)[0]
    with torch.autocast("cpu", torch.bfloat16):
        rounded = network(images)[0]
    assert seen[0] is images
    assert torch.equal(seen[1], images)
    assert seen[1].stride() == (256 * channels, 1, 16 * channels, channels)
    assert torch.allclose(exact, rounded, atol=0.02)


def test_a_tau_that_matches_nothing_is_reported(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    short: dict[str, Any] = {"steps": 20, "judge": False}
    shy = jumbot.adapt(source, target, method="jumbot", tau=1e-3, out=tmp_path / "shy", **short)
    (remark,) = shy.results["remarks"]
    assert "raise tau (it was 0.001)" in remark
    assert remark in shy.report().read_text(encoding="utf-8")
    assert jumbot.adapt(source, target, method="jumbot", tau=5.0, **short).results["remarks"] == []
    assert jumbot.adapt(source, target, method="deepjdot", **short).results["remarks"] == []
    poor = jumbot.adapt(source, target, method="elot", reward=1e-3, **short)
    assert "raise reward (it was 0.001)" in poor.results["remarks"][0]


def test_saved_and_loaded(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    model = jumbot.adapt(source, target, steps=20, method="jumbot", judge=False)
    expected = model.predict_proba(target)
    model.save(tmp_path / "saved")
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["model.json", "model.safetensors"]
    again = jumbot.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.predict_proba(target), expected)
    assert again.classes == model.classes
    assert again.predict(target)[0] in model.classes
    assert again.transform(target).shape == (len(target), 256)
    assert again.evaluate(target).n == len(target)
    with refused("report"):
        again.report()
    described = json.loads((tmp_path / "saved" / "model.json").read_text())
    (tmp_path / "saved" / "model.json").write_text(json.dumps(described | {"format": 7, "jumbot": "9"}))
    with refused(r"jumbot 9\b"):
        jumbot.load(tmp_path / "saved")
    with refused(r"model\.json"):
        jumbot.load(tmp_path)


def test_a_run_that_is_not_finished_is_marked_so(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    jumbot.adapt(source, target, steps=3, out=tmp_path / "run", method="jumbot", judge=False)
    (tmp_path / "run" / "model.json").unlink()
    with refused("not finished"):
        jumbot.load(tmp_path / "run")


def test_a_backbone_of_the_user(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    backbone = nn.Sequential(nn.Linear(3, 7), nn.Tanh())
    model = jumbot.adapt(
        source, target, backbone=backbone, steps=10, out=tmp_path / "run", method="jumbot", judge=False
    )
    assert model.transform(target).shape == (len(target), 7)
    with refused("backbone"):
        jumbot.load(tmp_path / "run")
    again = jumbot.load(tmp_path / "run", backbone=nn.Sequential(nn.Linear(3, 7), nn.Tanh()))
    np.testing.assert_array_equal(again.predict(target), model.predict(target))
    with refused("backbone"):
        jumbot.adapt(source, target, backbone=nn.Linear(9, 7), steps=1, method="jumbot", judge=False)
    with refused(r"\(batch, features\)"):
        jumbot.adapt(source, target, backbone=nn.Unflatten(1, (1, 3)), steps=1, method="jumbot", judge=False)
    wider, spec = make_network(NetworkOptions(features=5), (3,), 2, backbone)
    assert spec.bottleneck
    assert wider(torch.zeros(2, 3))[0].shape == (2, 5)


def test_a_backbone_of_the_user_for_photographs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    photographs = rng.integers(0, 255, (8, 70, 80, 3), dtype=np.uint8)
    backbone = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    trained = jumbot.adapt(
        (photographs, [0, 1] * 4), photographs, backbone=backbone, steps=2, batch_size=4, method="jumbot", judge=False
    )
    assert trained.transform(photographs).shape == (8, 12)
    assert trained.input.size == (70, 80)


def test_datasets_and_numbers_as_labels() -> None:
    rng = np.random.default_rng(0)
    y = np.array([3, 7])[np.arange(40) % 2]
    X = (rng.normal(size=(40, 4)) + y[:, None]).astype(np.float32)
    model = jumbot.adapt(
        TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), X, steps=20, method="jumbot", judge=False
    )
    assert set(model.predict(X).tolist()) <= {3, 7}


def test_a_class_with_one_sample_and_strings() -> None:
    rng = np.random.default_rng(0)
    y = np.array(["cat"] * 20 + ["dog"] * 20 + ["emu"])
    X = rng.normal(size=(41, 3)) + 4 * (y == "dog")[:, None] - 4 * (y == "emu")[:, None]
    model = jumbot.adapt((X, y), X + 0.1, steps=80, select="source_validation", method="jumbot", judge=False)
    assert (model.predict(X) == y).mean() > 0.9


def test_minibatch_larger_than_both_sets() -> None:
    rng = np.random.default_rng(0)
    model = jumbot.adapt(
        (rng.normal(size=(6, 2)), [0, 1] * 3),
        rng.normal(size=(5, 2)),
        batch_size=64,
        steps=3,
        method="jumbot",
        judge=False,
    )
    assert len(model.predict(rng.normal(size=(9, 2)))) == 9


def test_what_cannot_be_adapted(blobs: Any) -> None:
    source, target = blobs()
    with refused("target"):
        jumbot.adapt(source, None, method="jumbot", judge=False)
    with refused("label"):
        jumbot.adapt(source.unlabelled(), target, method="jumbot", judge=False)
    with refused("'tau'"):
        jumbot.adapt(source, target, tua=1.0, method="jumbot", judge=False)
    with refused("evaluate_on"):
        jumbot.adapt(source, target, evaluate_on=target.unlabelled(), method="jumbot", judge=False)
    with refused("freeze"):
        jumbot.adapt(
            (np.zeros((9, 8, 8)), [0, 1, 2] * 3),
            np.zeros((9, 8, 8)),
            backbone=None,
            freeze=True,
            method="jumbot",
            judge=False,
        )


def test_partial_target(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs(classes=4)
    model = jumbot.adapt(
        source, target, partial="first:2", steps=60, out=tmp_path / "run", method="jumbot", judge=False
    )
    assert model.results["n"] == 60
    assert len(model.classes) == 4
    assert len(list(csv.reader((tmp_path / "run" / "predictions.csv").read_text().splitlines()))) == 61
    assert set(model.results["diagnosis"]["absent_classes"]) == {2, 3}
    with refused("partial"):
        jumbot.adapt(source, target, partial="class 9", method="jumbot", judge=False)
    with refused("labels"):
        jumbot.adapt(source, target.unlabelled(), partial="first:2", method="jumbot", judge=False)


def test_table_network_layers() -> None:
    widths = [m.out_features for m in table_network(5, 3, 4, (8, 6)).modules() if isinstance(m, nn.Linear)]
    assert widths == [8, 6, 4, 3]


@pytest.mark.parametrize("method", ["source-only", "jumbot", pytest.param("dann", marks=pytest.mark.slow)])
def test_units_play_no_part(method: str) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = 3 * np.eye(3)[y] + 0.7 * rng.normal(size=(120, 3))
    target = X + [0.8, -0.8, 0.0] + 0.3 * rng.normal(size=X.shape)
    plain = jumbot.adapt((X, y), target, method=method, steps=20).predict_proba(target)
    for factor in (2.0**-20, 2.0**12):  # powers of two change no digit of a number
        other = jumbot.adapt((factor * X, y), factor * target, method=method, steps=20)
        np.testing.assert_allclose(other.predict_proba(factor * target), plain, atol=1e-4)
        np.testing.assert_allclose(jumbot.load(other.run).predict_proba(factor * target), plain, atol=1e-4)


def test_a_column_in_dollars_does_not_take_over() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = np.c_[3 * np.eye(3)[y] + 0.5 * rng.normal(size=(150, 3)), rng.normal(50_000, 20_000, 150)]
    target = X + np.array([0.5, -0.5, 0.0, 1000.0])
    model = jumbot.adapt((X, y), target, steps=80, method="jumbot", judge=False)
    assert (model.predict(target) == y).mean() > 0.9
    assert model.input.std is not None
