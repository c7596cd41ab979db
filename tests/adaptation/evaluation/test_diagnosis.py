"""`diagnose` on Gaussian classes whose proportions, missing classes, outliers and relation to the source are known."""

import json
import math

import numpy as np
import pytest
import torch

import jumbot
from jumbot.adaptation._evaluation.averaged_plans import PlanSettings, scaled_settings
from jumbot.adaptation._evaluation.diagnosis import diagnose
from jumbot.cost import joint_cost
from tests.refusals import refused

CLASSES, DIMENSION = 6, 16


class World:
    """Gaussian classes, typically `separation` standard deviations apart, and their Bayes classifier."""

    def __init__(self, seed, separation=9.0):
        self.rng = np.random.default_rng(seed)
        self.means = self.rng.normal(size=(CLASSES, DIMENSION)) * separation / math.sqrt(2 * DIMENSION)

    def samples(self, counts):
        labels = np.repeat(np.arange(CLASSES), counts)
        return self.means[labels] + self.rng.normal(size=(len(labels), DIMENSION)), labels

    def logits(self, z):
        return z @ self.means.T - (self.means**2).sum(1) / 2

    def diagnose(self, z, scale=1.0, counts=(60,) * CLASSES, **options):
        source, labels = self.samples(counts)
        logits = options.pop("logits", self.logits(z))
        return diagnose(torch.tensor(scale * source), labels, torch.tensor(scale * z), torch.tensor(logits), **options)[
            0
        ]


def deviation(p, q):
    return np.abs(np.asarray(p) - np.asarray(q)).sum() / 2


@pytest.mark.parametrize("seed", range(3))
def test_nothing_to_report_on_a_matched_pair(seed):
    world = World(seed)
    found = world.diagnose(world.samples([50] * CLASSES)[0])
    assert deviation(found.class_proportions, np.full(CLASSES, 1 / CLASSES)) < 0.01
    assert found.absent_classes == ()
    assert len(found.unexplained) <= 0.05 * 300
    assert np.median(found.received_mass) == pytest.approx(1, abs=0.25)
    assert found.transported_mass == pytest.approx(found.received_mass.mean())
    assert found.disagreement < 0.05
    assert not found.negative_transfer
    assert found.reasons == ()
    assert found.signs == ()


@pytest.mark.parametrize("seed", range(3))
def test_proportions_of_an_imbalanced_target(seed):
    world = World(seed, separation=7)
    counts = np.round(300 * np.geomspace(1, 0.1, CLASSES)).astype(int)
    truth = counts / counts.sum()
    found = world.diagnose(world.samples(counts)[0])
    assert deviation(found.class_proportions, truth) < 0.02
    assert found.absent_classes == ()
    assert not found.negative_transfer


@pytest.mark.parametrize("seed", range(3))
def test_proportions_do_not_follow_the_source(seed):
    world = World(seed)
    found = world.diagnose(world.samples([50] * CLASSES)[0], counts=[200, 100, 50, 20, 5, 2])
    assert deviation(found.class_proportions, np.full(CLASSES, 1 / CLASSES)) < 0.02


def test_one_vote_a_sample_beats_the_mass_per_class():
    errors = {"mass": [], "votes": [], "predicted": []}
    for seed in range(4):
        world = World(seed, separation=4)
        counts = np.round(200 * np.geomspace(1, 0.1, CLASSES)).astype(int)
        truth = counts / counts.sum()
        z, _ = world.samples(counts)
        source, labels = world.samples([40] * CLASSES)
        found = diagnose(torch.tensor(source), labels, torch.tensor(z), torch.tensor(world.logits(z)))[0]
        s = found.settings
        arguments = torch.tensor(source), torch.tensor(labels), torch.tensor(z), torch.tensor(world.logits(z))
        cost = joint_cost(*arguments, s.eta1, s.eta2)
        rows = jumbot.solve(cost, epsilon=s.epsilon, tau=s.tau).plan.sum(1).numpy()
        errors["mass"].append(deviation(np.bincount(labels, rows) / rows.sum(), truth))
        errors["votes"].append(deviation(found.class_proportions, truth))
        errors["predicted"].append(deviation(found.predicted_proportions, truth))
    assert np.mean(errors["votes"]) < 0.5 * np.mean(errors["mass"])
    assert np.mean(errors["votes"]) < 0.8 * np.mean(errors["predicted"])


@pytest.mark.parametrize("seed", range(3))
def test_missing_classes_are_named(seed):
    world = World(seed)
    found = world.diagnose(world.samples([60, 0, 60, 60, 0, 60])[0])
    assert found.absent_classes == (1, 4)
    assert deviation(found.class_proportions, np.array([1, 0, 1, 1, 0, 1]) / 4) < 0.01
    assert not found.negative_transfer


def test_classes_that_the_source_lacks_are_not_called_absent():
    world = World(0)
    found = world.diagnose(world.samples([50, 50, 50, 50, 50, 0])[0], counts=[60, 60, 60, 60, 60, 0])
    assert found.absent_classes == ()
    assert found.class_proportions[5] == 0


@pytest.mark.parametrize("seed", range(3))
def test_outliers_are_found_and_do_not_vote(seed):
    world = World(seed)
    z, _ = world.samples([40, 80, 40, 40, 40, 40])
    z = np.concatenate([world.rng.normal(size=(30, DIMENSION)) + 15, z])
    found = world.diagnose(z)
    assert set(range(30)) <= set(found.unexplained)
    assert len(found.unexplained) - 30 <= 0.05 * 280
    assert found.received_mass[:30].max() < 1e-3
    assert deviation(found.class_proportions, np.array([1, 2, 1, 1, 1, 1]) / 7) < 0.02
    assert not found.negative_transfer


@pytest.mark.parametrize("seed", range(3))
def test_a_class_unknown_to_the_source_is_unexplained(seed):
    world = World(seed)
    # the unknown class is as far from each other one as these are from each other
    world.means = 9 / math.sqrt(2) * np.eye(CLASSES, DIMENSION)
    z, labels = world.samples([50] * CLASSES)
    known = np.arange(CLASSES) < 5
    logits = np.where(known, world.logits(z), -100.0)
    found = world.diagnose(z, counts=[60] * 5 + [0], logits=logits)
    unexplained = np.zeros(len(z), bool)
    unexplained[found.unexplained] = True
    assert unexplained[labels == 5].mean() > 0.8
    assert unexplained[labels != 5].mean() < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_an_unrelated_target_is_warned_of(seed):
    world = World(seed)
    found = world.diagnose(World(seed + 100, separation=15).samples([50] * CLASSES)[0])
    assert found.signs
    assert not found.negative_transfer  # which is a matter of comparison
    assert any("explained by no source sample" in reason for reason in found.signs)


def test_predictions_against_the_embedding_are_warned_of():
    world = World(0)
    z, _ = world.samples([50] * CLASSES)
    found = world.diagnose(z, logits=np.roll(world.logits(z), 1, axis=1))
    assert found.signs
    assert not found.negative_transfer  # which is a matter of comparison
    # cost and classifier contradict each other: no source sample of the predicted class is near
    assert len(found.unexplained) > 0.3 * len(z) or found.disagreement > 0.3


def test_what_adaptation_has_changed_is_compared_with_before():
    world = World(0)
    z, labels = world.samples([80, 80, 80, 0, 0, 0])
    before = world.diagnose(z)
    assert not before.signs
    # half of each class is forced onto a class that the target does not have, as balanced transport would
    forced = z + np.where(np.arange(len(z)) % 2, 1, 0)[:, None] * (world.means[(labels + 3) % 6] - world.means[labels])
    assert not world.diagnose(forced).signs
    (reason,) = world.diagnose(forced, before=before).signs
    assert "moved the class proportions by 50 %" in reason
    (reason,) = world.diagnose(z, logits=0.02 * world.logits(z), before=before).signs
    assert "less certain" in reason
    assert not world.diagnose(z, before=before).signs


def test_the_diagnosis_before_is_of_the_same_classes():
    world = World(0)
    z, _ = world.samples([20] * CLASSES)
    other = diagnose(torch.zeros(2, 1), [0, 1], torch.zeros(1, 1), torch.zeros(1, 2))[0]
    with refused("before"):
        world.diagnose(z, before=other)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_embedding_does_not_matter(scale):
    counts = [100, 10, 50, 0, 30, 30]
    plain, other = (World(0) for _ in range(2))
    found, scaled = plain.diagnose(plain.samples(counts)[0]), other.diagnose(other.samples(counts)[0], scale=scale)
    np.testing.assert_allclose(scaled.received_mass, found.received_mass, rtol=1e-3)
    np.testing.assert_allclose(scaled.class_proportions, found.class_proportions, atol=1e-4)
    assert scaled.absent_classes == found.absent_classes == (3,)


@pytest.mark.parametrize("confidence", [0.05, 20.0])
def test_the_confidence_of_the_classifier_matters_little(confidence):
    world = World(0)
    counts = np.array([150, 30, 60, 0, 30, 30])
    z, _ = world.samples(counts)
    found = world.diagnose(z, logits=confidence * world.logits(z))
    assert deviation(found.class_proportions, counts / counts.sum()) < 0.04
    assert not found.negative_transfer


def test_the_same_seed_gives_the_same_diagnosis():
    world = World(0)
    z, _ = world.samples([20] * CLASSES)
    source, labels = world.samples([30] * CLASSES)
    logits = torch.tensor(world.logits(z))
    first, again, other = (
        diagnose(torch.tensor(source), labels, torch.tensor(z), logits, seed=seed)[0] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.received_mass, again.received_mass)
    assert not np.array_equal(first.received_mass, other.received_mass)
    np.testing.assert_allclose(first.class_proportions, other.class_proportions, atol=0.01)


def test_every_sample_is_covered_whatever_the_size():
    world = World(0)
    for n in (1, 7, 99, 100, 101, 250):
        z = world.means[np.arange(n) % CLASSES] + 0.1
        found = world.diagnose(z)
        assert found.received_mass.shape == (n,)
        assert np.all(found.received_mass > 0)


def test_rows_of_several_classes_that_rounding_alone_sets_apart(rng):
    few, labels = rng.normal(size=(4, 5)), np.arange(120) % 3
    z = torch.tensor(few[rng.integers(0, 4, 120)] * (1 + 1e-8 * rng.normal(size=(120, 5))))
    assert scaled_settings(z, labels, 3).eta1 == 0
    rows = rng.integers(0, 2, (120, 3)).astype(bool)
    jumbot.adapt((rows, labels), rows[::-1], steps=2, seed=0, method="jumbot", judge=False)


def test_scaled_settings_by_hand():
    z = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    found = scaled_settings(z, [0, 0, 1, 1], 2)
    # own class at 1; the other at 9, 10, 10 or 11 squared, by which of the two are nearest: 81 or 100
    assert found.eta1 == pytest.approx(1 / 90.5, rel=0.15)
    assert found.eta2 == found.epsilon == pytest.approx(0.5 / math.log(2))
    assert found.tau == pytest.approx((1 / found.eta1 - 1) * found.eta1 / (2 * math.log(10)))


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (torch.zeros(6, 2), [0, 0, 0, 1, 1, 1]),
        (torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), [0, 0, 0, 0, 0, 0]),
        (torch.tensor([[0.0, 0.0], [5.0, 0.0]]), [0, 1]),
        (torch.zeros(1, 2), [0]),
        (torch.tensor([[0.0, 0.0], [5.0, 0.0], [1.0, 1.0]]), [0, 1, -1]),
    ],
    ids=["all-equal", "one-class", "one-each", "one", "unlabelled"],
)
def test_odd_sources_are_diagnosed(features, labels):
    found = diagnose(features, labels, torch.zeros(3, 2), torch.tensor([[2.0, 0.0]] * 3))[0]
    assert np.all(np.isfinite(found.received_mass))
    assert found.class_proportions.sum() == pytest.approx(1)


def test_json_and_text():
    world = World(0)
    found = world.diagnose(world.samples([50, 0, 50, 50, 50, 50])[0])
    out = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert out["absent_classes"] == [1]
    assert out["negative_transfer"] is False
    assert out["settings"]["tau"] == found.settings.tau
    assert "classes that seem absent: 1" in str(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features_s": torch.zeros(4)}, "features_s, labels_s: shapes"),
        ({"labels_s": [0, 1]}, "features_s, labels_s: shapes"),
        ({"labels_s": [-1, -1, -1, -1]}, "no source sample has a label"),
        ({"labels_s": [0, 1, 2, 3]}, "labels_s: values from 0 to 3"),
        ({"features_t": torch.zeros(3, 5)}, "features_t: shape"),
        ({"logits_t": torch.zeros(2, 2)}, "logits_t: shape"),
        ({"features_t": torch.full((3, 2), math.nan)}, "features_t: it contains NaN"),
        ({"features_s": torch.full((4, 2), math.nan)}, "features_s: they contain NaN"),
    ],
)
def test_refused_with_the_reason(change, words):
    arguments = {
        "features_s": torch.zeros(4, 2),
        "labels_s": [0, 0, 1, 1],
        "features_t": torch.zeros(3, 2),
        "logits_t": torch.zeros(3, 2),
    }
    with refused(words):
        diagnose(**(arguments | change))


def test_settings_are_checked():
    with refused("tau"):
        PlanSettings(1.0, 1.0, 0.0, 0.1)
