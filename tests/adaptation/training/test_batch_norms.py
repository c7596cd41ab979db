"""Batch norms whose statistics are those of the target, and embeddings under autocast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from jumbot.adaptation._adapt import adapt
from jumbot.adaptation._networks.build import digits_network
from jumbot.adaptation._runs.folder import read_metrics
from jumbot.adaptation._training.batch_norms import batch_norms, estimate_batch_norms
from jumbot.data._domain import ArraySamples, Domain
from jumbot.methods.network import Network
from tests.refusals import refused


def images(count: int, light: float, seed: int) -> Domain:
    rng = np.random.default_rng(seed)
    labels = np.sort(np.arange(count) % 3)  # class after class, as a folder is read
    pixels = rng.random((count, 16, 16)) * 60 + 40 * labels[:, None, None] + light
    return Domain(f"light {light:g}", ArraySamples(pixels.astype(np.uint8)), labels, ("a", "b", "c"))


def test_they_are_the_statistics_of_all_samples() -> None:
    """Of one layer on rows, against NumPy: the mean exactly, the deviation but for what the minibatches' means vary."""
    rng = np.random.default_rng(0)
    rows = rng.normal(3.0, 2.0, (1700, 4)).astype(np.float32)
    rows[:900] += 5.0  # ordered: minibatches in this order would each have half of the deviation
    network = Network(nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)), features=4, classes=2)
    network.backbone.get_submodule("1").eval()
    estimate_batch_norms(network, Domain("rows", ArraySamples(rows)), "cpu")
    (norm,) = batch_norms(network)
    np.testing.assert_allclose(norm.running_mean, rows.mean(0), rtol=1e-4)
    np.testing.assert_allclose(norm.running_var, rows.var(0), rtol=2e-2)
    assert norm.momentum == 0.1
    assert network.training
    assert norm.training
    assert not network.backbone.get_submodule("1").training


@pytest.mark.parametrize("options", [{}, {"select": "entropy"}], ids=["last", "selected"])
def test_a_run_ends_with_those_of_the_target(options: Any, tmp_path: Path) -> None:
    source, target = images(90, 0.0, 0), images(300, 90.0, 1)
    settings = {"recipe": "digits", "method": "source-only", "batch_size": 30, "source_steps": 0, "steps": 12}
    common = {**settings, "evaluate_every": 4, "judge": False, **options}
    running, settled = (
        adapt(source, target, out=tmp_path / how, batch_norm=how, **common) for how in ("running", "target")
    )
    first = batch_norms(settled.network)[0]
    pixels = torch.from_numpy(target.samples.array).reshape(300, 1, 16, 16).float()
    with torch.no_grad():
        inputs = settled.network.backbone[0](pixels / 127.5 - 1)
    np.testing.assert_allclose(first.running_mean, inputs.mean((0, 2, 3)), rtol=1e-3, atol=1e-4)
    for one, other in zip(running.network.parameters(), settled.network.parameters(), strict=True):
        assert torch.equal(one, other)  # nothing else has changed
    before, last = [record for record in read_metrics(tmp_path / "target") if record["event"] == "evaluation"][-2:]
    assert before["step"] == last["step"] == 12
    if not options:
        assert before["accuracy"] == running.results["accuracy"]
        assert last["accuracy"] == settled.results["accuracy"]
        assert last["accuracy"] > running.results["accuracy"]


def test_a_network_without_batch_norms_is_refused(blobs: Any) -> None:
    with refused("batch_norm"):
        adapt(*blobs(), method="source-only", recipe="table", steps=3, batch_norm="target", judge=False)


def test_embeddings_keep_their_gradient_under_autocast() -> None:
    """In bfloat16 a sigmoid above .998 is 1, and its gradient 0; in float32 it is not."""
    network = digits_network((1, 16, 16))
    with torch.no_grad():
        network.backbone[-2].weight.mul_(0.01)
        network.backbone[-2].bias.fill_(8.0)
    with torch.autocast("cpu", torch.bfloat16):
        embedding, _ = network(torch.rand(4, 1, 16, 16))
    assert embedding.dtype == torch.float32
    assert (embedding > 0.998).all()
    embedding.sum().backward()
    assert (network.backbone[-2].bias.grad > 0).all()


def test_a_run_that_starts_from_one_with_another_target_has_batch_norms_of_its_own(tmp_path: Path) -> None:
    """All steps of source-only are reused, but the means and deviations are not those of the other target."""
    source, near, far = images(90, 0.0, 0), images(120, 40.0, 1), images(120, 90.0, 2)
    settings = {"recipe": "digits", "method": "source-only", "batch_size": 30, "source_steps": 0, "steps": 6}
    common = {**settings, "batch_norm": "target", "judge": False}
    adapt(source, near, out=tmp_path / "near", **common)
    alone = adapt(source, far, out=tmp_path / "alone", **common)
    begun = adapt(source, far, out=tmp_path / "begun", start_from=tmp_path / "near", **common)
    for one, other in zip(batch_norms(begun.network), batch_norms(alone.network), strict=True):
        torch.testing.assert_close(one.running_mean, other.running_mean)
        torch.testing.assert_close(one.running_var, other.running_var)
