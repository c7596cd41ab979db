"""The diagnosis of targets of any size: as `diagnose` where they are small, in bounded memory where they are not."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from jumbot.adaptation._evaluation import whole_target as _whole_target
from jumbot.adaptation._evaluation.diagnosis import diagnose, diagnose_numbers
from jumbot.adaptation._evaluation.task import Classification, Regression
from jumbot.adaptation._evaluation.whole_target import diagnose_rows, some_of_each
from jumbot.data._domain import ArraySamples, Domain

CLASSES = 3
CENTRES = 6 * np.eye(CLASSES)


def points(counts, seed):
    """Sorted by class, as files often are."""
    labels = np.repeat(np.arange(len(counts)), counts)
    z = CENTRES[labels] + np.random.default_rng(seed).normal(size=(len(labels), CLASSES))
    return z.astype(np.float32), labels


def source_of(z, labels, **more):
    return Domain("source", ArraySamples(z), labels, tuple("abc"), **more)


def forward(z, outputs=None):
    """Embeddings and what a classifier says that is right: the nearest centre."""
    z = torch.from_numpy(z)
    logits = -0.3 * torch.cdist(z, torch.from_numpy(CENTRES).float()).square() if outputs is None else outputs
    return lambda rows: (z[rows], logits[rows])


def diagnosed(source, z, **options):
    samples = source.samples.batch(np.arange(len(source))).numpy()
    return diagnose_rows(source, len(z), forward(samples), forward(z), Classification(tuple("abc")), **options)


@pytest.fixture
def small(monkeypatch):
    """As if a few hundred samples were many."""
    monkeypatch.setattr(_whole_target, "MOST", 600)
    monkeypatch.setattr(_whole_target, "_PART", 300)


def test_a_target_of_ordinary_size_is_diagnosed_as_before():
    z_s, labels = points([80] * CLASSES, 0)
    z, _ = points([100, 60, 20], 1)
    found, logits = diagnosed(source_of(z_s, labels), z, seed=3)
    same = diagnose(torch.from_numpy(z_s), labels, torch.from_numpy(z), forward(z)(slice(None))[1], seed=3)[0]
    np.testing.assert_array_equal(found.received_mass, same.received_mass)
    np.testing.assert_array_equal(found.class_proportions, same.class_proportions)
    assert (found.signs, found.disagreement) == (same.signs, same.disagreement)
    assert torch.equal(logits, forward(z)(slice(None))[1])


def test_every_sample_of_a_large_target_has_its_own_mass(small):
    z_s, labels = points([700] * CLASSES, 0)
    z, true = points([2000, 1000, 200], 1)
    z[::50] = 80.0  # what no source sample explains, in known places
    found, logits = diagnosed(source_of(z_s, labels), z)
    assert found.unexplained.tolist() == list(range(0, len(z), 50))
    assert torch.equal(logits, forward(z)(slice(None))[1])
    kept = np.ones(len(z), bool)
    kept[::50] = False
    shares = np.bincount(true[kept]) / kept.sum()
    assert np.abs(found.class_proportions - shares).max() < 0.04  # of 600 votes
    predicted = np.bincount(logits.argmax(-1).numpy(), minlength=CLASSES) / len(z)
    np.testing.assert_allclose(found.predicted_proportions, predicted)
    assert found.transported_mass == pytest.approx(found.received_mass.mean())
    assert not found.negative_transfer


def test_a_sorted_target_receives_what_a_mixed_one_does(small):
    z_s, labels = points([700] * CLASSES, 0)
    z, _ = points([2000, 1000, 200], 1)
    order = np.random.default_rng(5).permutation(len(z))
    sorted_mass = diagnosed(source_of(z_s, labels), z)[0].received_mass
    mixed_mass = diagnosed(source_of(z_s, labels), z[order])[0].received_mass
    whole = diagnose(torch.from_numpy(z_s), labels, torch.from_numpy(z), forward(z)(slice(None))[1])[0].received_mass
    for found in (sorted_mass[order], mixed_mass):
        assert np.abs(found - whole[order]).mean() < 0.15
        assert np.corrcoef(found, whole[order])[0, 1] > 0.7


def test_reasons_count_every_sample(small):
    z_s, labels = points([700] * CLASSES, 0)
    z, _ = points([1000] * CLASSES, 1)
    z[:1500] = 80.0
    found, _ = diagnosed(source_of(z_s, labels), z)
    assert len(found.unexplained) == 1500
    assert any(sign.startswith("50 %") for sign in found.signs)


@pytest.mark.parametrize("numbers", [False, True])
def test_shares_of_several_sources_stand_next_to_their_samples(small, numbers):
    """Source 1 is what the last class of the target is from."""
    z_s, labels = points([700] * CLASSES, 0)
    z, true = points([900] * CLASSES, 1)
    origins = (labels == 2).astype(np.int64)
    more = {"origins": origins, "sources": ("one", "two")}
    if not numbers:
        found, _ = diagnosed(source_of(z_s, labels, **more), z)
    else:
        values = labels[:, None].astype(float)
        source = Domain("source", ArraySamples(z_s), values=values, **more)
        task = Regression.of(values)
        predicted = torch.from_numpy(((true[:, None] - task.mean) / task.std).astype(np.float32))
        found, outputs = diagnose_rows(source, len(z), forward(z_s, predicted), forward(z, predicted), task)
        assert torch.equal(outputs, predicted)
        assert len(found.class_proportions) == 0
        assert found.reasons == ()
        whole, *_ = diagnose_numbers(
            torch.from_numpy(z_s),
            torch.from_numpy(task.labels(source)),
            torch.from_numpy(z),
            predicted,
            origins=origins,
        )
        assert np.corrcoef(found.source_shares[:, 1], whole.source_shares[:, 1])[0, 1] > 0.98
    assert found.source_shares.shape == (len(z), 2)
    assert (found.source_shares[:, 1] > 0.5)[true == 2].mean() > 0.97
    assert (found.source_shares[:, 1] < 0.5)[true != 2].mean() > 0.97


def test_rare_classes_of_a_large_source_are_kept_whole(small):
    labels = np.repeat([0, 1, 2, -1], [5000, 7, 900, 50])
    origins = np.arange(len(labels)) % 2
    for given in (None, origins):
        rows = some_of_each(labels, given, 0)
        counts = np.bincount(labels[rows], minlength=3)
        assert counts[1] == 7
        assert 590 <= len(rows) <= 600
        assert (labels[rows] >= 0).all()
        assert len(np.unique(rows)) == len(rows)


_PEAK = """
import resource, sys
import numpy as np, torch
from jumbot.adaptation._evaluation import whole_target as _whole_target
from jumbot.adaptation._evaluation.task import Classification
from jumbot.data._domain import ArraySamples, Domain
_whole_target.MOST, _whole_target._PART = 2000, 1000
n, d = 30_000, 4096
labels = np.arange(n) % 3
def forward(rows):
    z = torch.zeros(len(rows), d)
    z[torch.arange(len(rows)), torch.from_numpy(rows % 3)] = 6.0
    z += 0.01 * torch.randn(len(rows), 1)
    return z, 5 * z[:, :3]
source = Domain("source", ArraySamples(np.zeros((n, 1), np.float32)), labels, tuple("abc"))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
run = lambda count: _whole_target.diagnose_rows(source, count, forward, forward, Classification(tuple("abc")))
run(300)
before = peak()
found, _ = run(n)
assert len(found.received_mass) == n and not len(found.unexplained)
print(peak() - before)
"""


@pytest.mark.slow
def test_the_embeddings_of_a_large_target_are_never_held_at_once():
    """30,000 of 4,096 numbers are 490 MB, and were held in float64 beside that, for both domains."""
    found = subprocess.run([sys.executable, "-c", _PEAK], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 250, f"{found.stdout} MB"
