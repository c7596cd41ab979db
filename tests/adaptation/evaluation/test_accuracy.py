"""The accuracy estimated without labels: closed forms of every vote, their combination, and a truth that is known."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import ot
import pytest
import torch

import jumbot
from jumbot.adaptation._evaluation import votes
from jumbot.adaptation._evaluation.accuracy import (
    EstimatedAccuracy,
    calibrate,
    calibrating_temperature,
    estimate_accuracy,
    target_shares,
)
from jumbot.adaptation._evaluation.decision import Harm, as_diagnosed, decide, kept, weigh_harm
from jumbot.adaptation._evaluation.modularity import nearest
from jumbot.adaptation._evaluation.votes import Panel, Witness
from jumbot.adaptation._training.witnesses import KINDS, folds, neighbourhoods, reference_predictions
from jumbot.data._domain import ArraySamples, Domain

RNG = np.random.default_rng(0)


def probabilities(n: int, classes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), n)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("shift", [False, True])
def test_the_temperature_of_calibrated_logits_is_found(temperature: float, shift: bool) -> None:
    rng = np.random.default_rng(1)
    offset = np.log([0.6, 0.3, 0.1]) if shift else np.zeros(3)
    z = rng.normal(size=(20_000, 3))
    p = votes.softmax(z, 1.0, offset)
    labels = (rng.random((len(p), 1)) > p.cumsum(1)).sum(1)
    assert votes.fit_temperature(z * temperature, labels, offset) == pytest.approx(temperature, rel=0.06)


def test_a_classifier_without_a_mistake_is_not_infinitely_sure() -> None:
    z = 3 * np.eye(2)[np.arange(40) % 2]
    found = votes.fit_temperature(z, np.arange(40) % 2)
    assert votes.COLDEST < found < 2
    assert votes.softmax(z, found).max() == pytest.approx(1 - 1 / 84, abs=0.002)  # smoothed by 1 / (n + 2), two classes


@pytest.mark.parametrize("classes", [2, 5])
def test_the_transport_vote_is_the_exact_cost(classes: int) -> None:
    q, shares = probabilities(300, classes), RNG.dirichlet(np.ones(classes))
    exact = ot.emd2(np.full(300, 1 / 300), shares, 1 - q)
    assert votes.transport_vote(q, shares) == pytest.approx(1 - exact, abs=1e-9)
    sure = np.eye(classes)[RNG.integers(0, classes, 100)]
    there = sure.mean(0)
    assert votes.transport_vote(sure, there) == pytest.approx(1)
    moved = np.roll(there, 1)
    assert votes.transport_vote(sure, moved) == pytest.approx(1 - np.abs(there - moved).sum() / 2)  # total variation


def test_a_class_that_the_source_has_not_costs_nothing() -> None:
    q = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    assert votes.transport_vote(q, np.array([0.0, 1.0, 0.0])) == pytest.approx(0.65)
    assert votes.estimated_shares(q, np.array([0.5, 0.5, 0.0]))[2] == 0


def test_the_threshold_keeps_the_accuracy_where_nothing_has_shifted() -> None:
    q = probabilities(1000, 3)
    for right in (0.2, 0.7, 1.0):
        assert votes.threshold_vote(q, right, q) == pytest.approx(right, abs=0.002)
    assert votes.difference_of_confidences(q, 0.7, q) == pytest.approx(0.7)


def test_shares_are_found_from_calibrated_probabilities() -> None:
    rng = np.random.default_rng(2)
    source, wanted = np.array([0.5, 0.5]), np.array([0.85, 0.15])
    y = (rng.random(20_000) > wanted[0]).astype(int)
    x = rng.normal(size=len(y)) + 2 * y
    q = votes.softmax(np.stack([np.zeros(len(x)), 2 * x - 2], 1))  # of the source, by Bayes
    np.testing.assert_allclose(votes.estimated_shares(q, source), wanted, atol=0.01)


def witness(right: float = 0.9, target: float = 0.7, n: int = 400, agreeing: float | None = None) -> Witness:
    """A sure classifier, right in these shares, and a reference that knows the truth of both domains."""
    rng = np.random.default_rng(3)

    def predictions(share: float) -> tuple[np.ndarray, np.ndarray]:
        truth = rng.integers(0, 2, n)
        return truth, np.where(np.arange(n) < round(share * n), truth, 1 - truth)

    (y, own), (t, own_t) = predictions(right), predictions(target if agreeing is None else agreeing)
    panel = Panel({"trees": y}, {"trees": (t,)})
    return Witness(4 * np.eye(2)[own], y, (4 * np.eye(2)[own_t],), np.full(2, 0.5), np.zeros(2), panel)


def test_a_loss_of_agreement_is_a_loss_of_accuracy_however_sure_it_is() -> None:
    found = witness(0.9, 0.6).votes()
    assert found["held-out accuracy"] == pytest.approx(0.9)
    assert found["agreement with trees"] == pytest.approx(0.6)  # the reference is right everywhere
    assert found["mean confidence"] > 0.85
    other = witness(0.9, 0.6).votes(4 * np.eye(2)[np.asarray(witness(0.9, 0.6).panel.target["trees"][0])])
    assert other["agreement with trees"] == pytest.approx(1.0)


def test_the_median_of_the_votes_and_what_they_differ_by() -> None:
    close = {"COT": 0.8, "ATC": 0.81, "agreement with trees": 0.79, "held-out accuracy": 0.99}
    found = estimate_accuracy(close, 1000, 1000)
    assert found.value == 0.8  # the held-out accuracy is no estimate of the target's
    assert found.votes == close
    apart = estimate_accuracy({**close, "COT": 0.6}, 1000, 1000)
    assert apart.high - apart.low > found.high - found.low > 0.1
    few = estimate_accuracy(close, 40, 40)
    assert few.high - few.low > found.high - found.low
    estimate = estimate_accuracy({"COT": 0.2, "ATC": 1.0, "agreement with trees": 0.5}, 1000, 1000)
    assert (estimate.value, estimate.low, estimate.high) == (None, None, None)
    assert "20 to 100 %" in estimate.why
    assert estimate_accuracy(close, 29, 1000).value is None
    sure = estimate_accuracy(dict.fromkeys(close, 0.99), 10_000, 10_000)
    assert sure.low <= 0.85  # nobody can promise more without labels


def test_a_classifier_that_always_says_the_commonest_class_has_no_estimate() -> None:
    """Men and women of the Titanic: 81 % of the men died, and who learned that is right for 31 % of the women."""
    truth = (np.arange(200) % 5 == 0).astype(int)
    place = np.arange(200)
    for found, skill in ((0 * truth, 0.0), (truth * (place < 10), 0.05), (truth * (place < 100), 0.5)):
        logits = 4 * np.eye(2)[found]
        panel = Panel({"trees": found}, {"trees": (found,)})
        own = Witness(logits, truth, (logits,), np.array([0.8, 0.2]), np.zeros(2), panel)
        assert own.skill == pytest.approx(skill)
        estimate = estimate_accuracy(own.votes(), 200, 200, skill=own.skill)
        assert (estimate.value is None) == (skill < 0.1)
        assert ("always predicting" in estimate.why) == (skill < 0.1)
        assert estimate.votes  # they are said all the same
    assert witness().skill > 0.7
    one = Witness(np.zeros((40, 2)), np.zeros(40, int), (np.zeros((40, 2)),), np.array([1.0, 0.0]), np.zeros(2))
    assert one.skill == 0


@pytest.mark.judged
def test_references_learn_the_source() -> None:
    rng = np.random.default_rng(4)
    y = np.arange(200) % 3
    X = 4 * np.eye(3)[y] + rng.normal(size=(200, 3))
    found = reference_predictions(X, y, (X, X + 0.1))
    assert tuple(found) == KINDS
    for there, here in found.values():
        assert (there == y).mean() > 0.9
        assert (here == y).mean() > 0.9
    wide = np.hstack([X, rng.normal(size=(200, 500)) / 100])
    assert (reference_predictions(wide, y, (wide,))["neighbours"][0] == y).mean() > 0.9
    numbers = reference_predictions(X, X[:, :1], (X,), numbers=True)
    assert all(each[0].shape == (200, 1) for each in numbers.values())
    assert np.abs(numbers["logistic regression"][0] - X[:, :1]).mean() < 0.1
    one = reference_predictions(X, np.zeros(200, int), (X[:5],))
    assert one["trees"][0].tolist() == [0] * 5


@pytest.mark.judged
@pytest.mark.parametrize("n", [60, 400, 401, 5000, 20_000])
def test_folds_never_train_on_what_they_hold_out(n: int) -> None:
    labels = np.arange(n) % 3
    found = folds(labels, n, 0)
    for rest, held in found:
        assert not set(rest) & set(held)
        assert len(rest) + len(held) == n
        shares = np.bincount(labels[held], minlength=3) / len(held)
        np.testing.assert_allclose(shares, 1 / 3, atol=0.05)
    if n <= 400:
        assert sorted(np.concatenate([held for _, held in found])) == list(range(n))
    else:
        assert len(found) == 1
        assert abs(len(found[0][1]) - min(n / 5, 2000)) < 1


def test_harm_is_a_fall_of_the_votes_and_nothing_else() -> None:
    assert weigh_harm({"COT": 0.6}, {"COT": 0.8}, 0.3).likely
    assert not weigh_harm({"COT": 0.6}, {"COT": 0.8}, 0.01).likely  # nothing changed
    assert not weigh_harm({"COT": 0.79}, {"COT": 0.8}, 0.3).likely
    assert not weigh_harm({"COT": 0.9}, {"COT": 0.8}, 0.9).likely  # however much it changed
    (reason,) = weigh_harm({"COT": 0.6}, {"COT": 0.8}, 0.3).reasons  # what has changed is no sign of its own
    assert re.findall(r"(\d+) %", reason) == ["60", "80", "30"]
    both = weigh_harm({"COT": 0.6}, {"COT": 0.8}, 0.3, np.full(9, -0.1)).reasons
    assert [("votes" in each, "neighbourhoods" in each, "changed" in each) for each in both] == [
        (True, False, False),
        (False, True, True),
    ]
    names = ("COT", "ATC", "agreement with trees")
    agreed = dict.fromkeys(names, 0.8)
    split = dict(zip(names, (0.5, 0.8, 0.9), strict=True))
    found = weigh_harm(split, agreed, 0.3)
    assert found.gain == pytest.approx(np.mean([-0.3, 0.0, 0.1]))
    assert found.error == pytest.approx(np.std([-0.3, 0.0, 0.1]) / np.sqrt(3))
    paired = weigh_harm(split, {name: vote - 0.1 for name, vote in split.items()}, 0.3)
    assert (paired.gain, paired.error) == pytest.approx((0.1, 0.0))  # votes are compared in pairs
    aside = {"mean confidence": 0.1, "held-out accuracy": 0.1}
    assert weigh_harm(agreed | aside, agreed, 0.3).gain == 0  # those are for comparison


def test_a_requested_method_has_the_sentence_of_the_diagnosis() -> None:
    folds = weigh_harm({"COT": 0.6}, {"COT": 0.8}, 0.28)
    final = replace(folds, changed=0.47)  # of the predictions of the returned model
    asked = as_diagnosed(kept("jumbot", folds), final)
    assert asked is not None
    assert (asked.method, asked.asked, asked.harm) == ("jumbot", True, final)
    assert "47 %" in asked.why
    assert "28 %" not in asked.why
    chosen = decide(folds, "jumbot")
    for decision, harm in ((chosen, final), (kept("jumbot", folds), None), (None, final)):
        assert as_diagnosed(decision, harm) is decision


def test_even_evidence_is_for_source_only() -> None:
    names = ("COT", "ATC", "agreement with trees")
    alone = dict.fromkeys(names, 0.7)
    for gains, helps in (((0.03, 0.03, 0.03), True), ((0.01, 0.01, 0.01), False), ((0.3, -0.1, -0.1), False)):
        adapted = {name: 0.7 + gain for name, gain in zip(names, gains, strict=True)}
        harm = weigh_harm(adapted, alone, 0.2)
        assert (harm.helps, harm.likely) == (helps, False)
        assert decide(harm, "jumbot").method == ("jumbot" if helps else "source-only")


def test_neighbourhoods_decide_where_the_source_has_them() -> None:
    same, more, less = {"COT": 0.8}, {"COT": 0.9}, {"COT": 0.7}
    for mean, helps, likely in ((0.1, True, False), (0.001, False, False), (-0.1, False, True)):
        gained = mean + np.resize([-0.2, 0.2], 400)
        harm = weigh_harm(same, same, 0.2, gained)
        assert harm.modularity == pytest.approx(mean)
        assert harm.modularity_error == pytest.approx(0.01)
        assert (harm.helps, harm.likely) == (helps, likely)
        assert weigh_harm(more, same, 0.2, gained).helps == helps
        against = weigh_harm(less, same, 0.2, gained)  # balanced classes are neighbourhoods too
        assert (against.helps, against.likely) == (False, True)


def test_votes_that_disagree_do_not_overrule_the_neighbourhoods() -> None:
    """If source-only predicts one class as simple models of the source do, they agree with it, wrongly."""
    names = ("COT", "ATC", "agreement with logistic regression", "agreement with trees", "agreement with neighbours")
    alone = dict(zip(names, (0.25, 0.83, 0.77, 0.77, 0.76), strict=True))
    gained = 0.2 + np.resize([-0.2, 0.2], 400)
    for adapted, helps in (((0.66, 0.65, 0.27, 0.24, 0.24), True), ((0.1, 0.4, 0.27, 0.24, 0.24), False)):
        harm = weigh_harm(dict(zip(names, adapted, strict=True)), alone, 0.7, gained)
        assert harm.gain < -0.2
        assert (harm.helps, harm.likely) == (helps, not helps)
        assert decide(harm, "jumbot").method == ("jumbot" if helps else "source-only")


def test_neighbourhoods_are_asked_for_where_labels_follow_them() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    rows = (4 * np.eye(3)[y] + rng.normal(size=(200, 3))).astype(np.float32)
    clear, random = (
        Domain("source", ArraySamples(rows), labels, ("a", "b", "c")) for labels in (y, rng.permutation(y))
    )
    found = neighbourhoods(clear, rows.astype(float), 0)
    np.testing.assert_array_equal(found, nearest(rows))
    assert neighbourhoods(random, rows.astype(float), 0) is None


def test_the_decision_is_the_rule_of_harm() -> None:
    for gain, changed, method in ((-0.1, 0.3, "source-only"), (0.1, 0.3, "jumbot"), (0.1, 0.001, "source-only")):
        harm = Harm(0.8 + gain, 0.8, changed)
        found = decide(harm, "jumbot")
        assert found.method == method
        assert found.harm == harm
        assert not found.asked
        assert method in str(found)
        assert harm.likely == (gain < 0)
    named = kept("jumbot", Harm(0.5, 0.8, 0.3))
    assert (named.method, named.asked) == ("jumbot", True)  # a method that is named is kept
    assert "probably did harm" in named.why
    even = decide(Harm(-0.5, -0.51, 0.3, numbers=True), "jumbot")  # of numbers, adaptation must win
    assert even.method == "source-only"
    assert decide(Harm(-0.3, -0.5, 0.3, numbers=True), "jumbot").method == "jumbot"


@pytest.mark.parametrize("accuracy", [0.45, 0.8, 0.999])
def test_mean_confidence_is_the_accuracy(accuracy: float) -> None:
    logits = 3 * torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    temperature = calibrating_temperature(logits, accuracy)
    assert float((logits / temperature).softmax(-1).amax(-1).mean()) == pytest.approx(accuracy, abs=0.01)


def test_class_sizes_are_those_found_or_those_of_the_source() -> None:
    source = np.array([0.75, 0.25])
    np.testing.assert_allclose(target_shares(np.array([0.6, 0.4]), np.array([0.62, 0.38]), source), [0.61, 0.39])
    np.testing.assert_allclose(target_shares(np.array([0.6, 0.4]), np.array([0.9, 0.1]), source), source)


def test_the_offset_makes_predictions_of_equal_classes_those_of_the_source() -> None:
    """Logits for equal classes of two Gaussians whose classes are 9 : 1; Bayes is right in more cases."""
    rng = np.random.default_rng(5)
    shares = np.array([0.9, 0.1])

    def draw(n: int, share: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        y = (rng.random(n) > share).astype(int)
        x = rng.normal(size=n) + 1.5 * y
        return np.stack([np.zeros(n), 1.5 * x - 1.125], 1), y

    (held, y), (target, truth) = draw(4000), draw(4000)
    witness = Witness(2 * held, y, (2 * target,), shares, np.log(2 * shares))
    logits = torch.from_numpy(2 * target)
    found = calibrate(logits, witness, shares, 0.9)
    assert found.offset is not None
    by_prior = {name: (found.scores(logits, name).argmax(1).numpy() == truth).mean() for name in ("target", "equal")}
    bayes = (votes.softmax(target, 1.0, np.log(shares)).argmax(1) == truth).mean()
    assert by_prior["target"] == pytest.approx(bayes, abs=0.005)
    assert by_prior["equal"] == (target.argmax(1) == truth).mean() < bayes - 0.05
    confidence = found.scores(logits).softmax(-1).amax(-1).mean()
    assert float(confidence) == pytest.approx(0.9, abs=1e-3)
    half, _ = draw(4000, 0.5)
    far = calibrate(torch.from_numpy(2 * half), witness, np.array([0.5, 0.5]), None)  # both estimates say half and half
    assert far.offset == pytest.approx(tuple(witness.offset - witness.offset.mean()))
    equal = Witness(held, y, (target,), np.full(2, 0.5), np.zeros(2))
    assert calibrate(torch.from_numpy(target), equal, np.array([0.3, 0.7]), None).offset is None


def test_the_model_has_it_and_keeps_it(blobs: Any, tmp_path: Any) -> None:
    source, target = blobs(n=240)
    model = jumbot.adapt(source, target, method="jumbot", steps=60, out=tmp_path / "run")
    found, decision = model.estimated_accuracy, model.decision
    truth = model.results["accuracy"]
    assert isinstance(found, EstimatedAccuracy)
    assert found.low <= truth <= found.high
    assert {"COT", "ATC", "held-out accuracy", "agreement with trees"} <= set(found.votes)
    assert decision is not None
    assert (decision.method, decision.asked) == ("jumbot", True)
    again = jumbot.load(tmp_path / "run")
    assert again.estimated_accuracy == found
    assert again.decision == decision
    assert again.temperature == model.temperature != 1
    np.testing.assert_array_equal(again.predict_proba(target), model.predict_proba(target))
    assert model.predict_proba(target).max(1).mean() == pytest.approx(found.value, abs=0.01)
    described = json.loads((tmp_path / "run" / "model.json").read_text())
    del described["temperature"], described["results"]["estimated_accuracy"]  # as version 0.1 wrote it
    described["format"] = 1
    (tmp_path / "run" / "model.json").write_text(json.dumps(described))
    old = jumbot.load(tmp_path / "run")
    assert (old.temperature, old.estimated_accuracy) == (1.0, None)
