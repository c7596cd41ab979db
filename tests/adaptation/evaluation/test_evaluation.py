"""`evaluate` against scikit-learn, and its answers where there is nothing to count."""

import json
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, recall_score

from jumbot.adaptation._evaluation.measures import evaluate
from tests.refusals import refused


def count(predictions, labels, classes):
    """The evaluation of predicted classes."""
    names = [str(c) for c in range(classes)] if isinstance(classes, int) else classes
    return evaluate(np.eye(len(names))[predictions], np.array(labels), names)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    c = int(rng.integers(2, 12))
    labels, predictions = rng.integers(0, c, 200), rng.integers(0, c, 200)
    labels[:c] = np.arange(c)
    found = count(predictions, labels, c)
    assert found.n == 200
    assert found.accuracy == pytest.approx(accuracy_score(labels, predictions))
    assert found.mean_class_accuracy == pytest.approx(balanced_accuracy_score(labels, predictions))
    np.testing.assert_array_equal(found.confusion, confusion_matrix(labels, predictions))
    np.testing.assert_allclose(found.per_class, recall_score(labels, predictions, average=None))


def test_classes_without_a_sample_have_no_accuracy_and_do_not_count():
    labels, predictions = np.array([0, 0, 3, 3, 3]), np.array([0, 1, 3, 3, 2])
    found = count(predictions, labels, 5)
    assert found.per_class == (0.5, None, None, pytest.approx(2 / 3), None)
    assert found.mean_class_accuracy == pytest.approx((1 / 2 + 2 / 3) / 2)
    np.testing.assert_array_equal(found.confusion, confusion_matrix(labels, predictions, labels=range(5)))


def test_unlabelled_samples_are_left_out_and_counted():
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(-1, 4, 300), rng.integers(0, 4, 300)
    known = labels >= 0
    found = count(predictions, labels, 4)
    assert (found.n, found.left_out) == (known.sum(), (~known).sum())
    assert found.accuracy == pytest.approx(accuracy_score(labels[known], predictions[known]))


def test_probabilities_count_by_their_largest():
    rng = np.random.default_rng(1)
    p, labels = rng.dirichlet(np.ones(3), 50), rng.integers(0, 3, 50)
    for outputs in (p, torch.from_numpy(p)):
        found = evaluate(outputs, labels, "abc")
        np.testing.assert_array_equal(found.confusion, confusion_matrix(labels, p.argmax(1)))


def test_half_precision_logits_count():
    logits = torch.tensor([[5.0, -1.0], [-2.0, 7.0]], dtype=torch.bfloat16, requires_grad=True)
    assert evaluate(logits, np.array([0, 1]), ["a", "b"]).accuracy == 1


def test_no_label_at_all_gives_no_figure_and_valid_json():
    found = count([0, 1, 1], [-1, -1, -1], ["a", "b"])
    assert math.isnan(found.accuracy)
    assert math.isnan(found.mean_class_accuracy)
    assert str(found) == "no labelled sample (3 without a label of these classes left out)"
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["accuracy"] is None


def test_no_sample_at_all():
    assert evaluate(np.zeros((0, 3)), np.zeros(0, int), "abc").n == 0


def test_json_carries_every_figure():
    found = count([0, 1, 1], [0, 0, -1], ["a", "b"])
    assert json.loads(json.dumps(found.to_json(), allow_nan=False)) == {
        "n": 2,
        "left_out": 1,
        "accuracy": 0.5,
        "mean_class_accuracy": 0.5,
        "per_class": [0.5, None],
        "confusion": [[1, 1], [0, 0]],
        "classes": ["a", "b"],
    }


def test_text_names_the_classes_and_what_they_are_taken_for():
    text = str(count([0, 1, 1, 1], [0, 0, 0, 1], ["cat", "dog", "fish"]))
    assert "accuracy 50.0 %" in text
    assert "33.3 % of 3, mostly predicted as dog (2)" in text
    assert "fish  no sample" in text
    assert len(str(count([0], [0], 1000)).splitlines()) == 1


def test_the_result_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        count([0], [0], 2).confusion[0, 0] = 5


@pytest.mark.parametrize("outputs", [[[0.5, math.nan]], [[0.2, 0.3, 0.5]], [[0.5, 0.5], [0.5, 0.5]], [1]])
def test_outputs_that_cannot_be_counted(outputs):
    with refused("outputs"):
        evaluate(np.array(outputs), np.array([0]), ["a", "b"])
