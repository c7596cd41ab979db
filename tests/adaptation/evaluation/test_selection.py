"""Label-free scores against brute force and independent libraries; the choice of a step from its records."""

import json
import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy as scipy_entropy
from sklearn.metrics import mutual_info_score

from jumbot.adaptation._evaluation import selection
from jumbot.adaptation._evaluation.selection import SCORES, best, entropy, infomax, scores, snd
from tests.refusals import refused


def outputs(seed, n=40, c=5, sharpness=1.0):
    return np.random.default_rng(seed).dirichlet(np.full(c, 1 / sharpness), n)


def test_entropy_agrees_with_scipy():
    p = outputs(0)
    assert entropy(p) == pytest.approx(scipy_entropy(p, axis=1).mean())
    assert entropy(torch.tensor(p)) == pytest.approx(entropy(p))
    assert entropy(np.eye(3)) == 0
    assert entropy(np.full((4, 3), 1 / 3)) == pytest.approx(math.log(3))


def test_infomax_is_the_mutual_information_of_sample_and_class():
    # rows of equal totals, read as counts of (sample, class)
    table = np.array([np.random.default_rng(1).multinomial(1000, row) for row in outputs(1)])
    p = table / 1000
    assert infomax(p) == pytest.approx(mutual_info_score(None, None, contingency=table))
    assert infomax(np.tile(p[:1], (9, 1))) == pytest.approx(0, abs=1e-12)


def test_infomax_prefers_equal_proportions_even_where_the_truth_is_imbalanced():
    truth = np.repeat([0, 1], [90, 10])
    spread = np.where(np.arange(100) < 40, 1, truth)
    assert infomax(np.eye(2)[spread]) > infomax(np.eye(2)[truth])


def brute_snd(p, temperature):
    total = 0.0
    for i in range(len(p)):
        s = [p[i] @ p[j] / np.linalg.norm(p[i]) / np.linalg.norm(p[j]) for j in range(len(p)) if j != i]
        w = np.exp(np.array(s) / temperature)
        total += scipy_entropy(w / w.sum())
    return total / len(p)


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_snd_agrees_with_its_formula(temperature):
    p = outputs(2)
    assert snd(p, temperature=temperature) == pytest.approx(brute_snd(p, temperature))


def test_snd_is_the_same_in_chunks_and_below_the_limit(monkeypatch):
    p = outputs(3, n=70)
    whole = snd(p)
    monkeypatch.setattr(selection, "_CHUNK", 16)
    assert snd(p) == pytest.approx(whole, rel=1e-12)
    assert snd(p, most=70) == pytest.approx(whole, rel=1e-12)


def test_snd_of_known_neighbourhoods():
    assert snd(np.tile([[0.2, 0.8]], (11, 1))) == pytest.approx(math.log(10))
    clusters = np.repeat(np.eye(4), 6, axis=0)
    # 5 neighbours of weight 1 and 18 of weight exp(-20)
    assert snd(clusters) == pytest.approx(math.log(5), abs=1e-6)
    assert math.isnan(snd([[0.5, 0.5]]))


def test_snd_of_many_samples_is_a_seeded_subset():
    p = outputs(4, n=600, sharpness=4)
    assert snd(p, most=200) == snd(p, most=200)
    assert snd(p, most=200) != snd(p, most=200, seed=1)
    kept = np.sort(np.random.default_rng(0).choice(600, 200, replace=False))
    assert snd(p, most=200) == pytest.approx(snd(p[kept]))


def test_all_scores_at_once():
    p = outputs(6)
    assert scores(p) == {"entropy": entropy(p), "infomax": infomax(p), "snd": snd(p)}
    more = scores(p, source_accuracy=0.9, transport_value=1.5)
    assert (more["source_validation"], more["transport"]) == (0.9, 1.5)
    assert set(more) == set(SCORES) - {"oracle", "smoothness"}  # the latter is of numbers


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_direction_ties_and_missing_values(score):
    good, bad = (2.0, 1.0) if score.higher_is_better else (1.0, 2.0)
    values = [bad, good, math.nan, good, None, bad, math.inf, -math.inf]
    name = score.name
    history = [
        {"event": "evaluation", "step": 10 * k, **({"accuracy": v} if name == "oracle" else {"scores": {name: v}})}
        for k, v in enumerate(values)
    ]
    history.insert(4, {"event": "step", "step": 999, "loss": 0.0})
    assert best(history, name) == 30
    assert best([*history, {"event": "evaluation", "step": 80}], name) == 30
    assert best(history, "last") == best(history) == 70
    assert json.loads(json.dumps(score.help)) == score.help


def test_oracle_reads_the_accuracy_only_by_that_name():
    history = [
        {"step": 1, "accuracy": 0.9, "scores": {"entropy": 2.0}},
        {"step": 2, "accuracy": 0.1, "scores": {"entropy": 1.0}},
    ]
    assert best(history, "oracle") == 1
    assert best(history, "entropy") == 2


@pytest.mark.parametrize(
    ("history", "rule", "words"),
    [
        ([{"step": 1, "scores": {}}], "orcle", "did you mean 'oracle'"),
        ([{"step": 1, "scores": {}}], "zzz", "Known: last, entropy"),
        ([], "last", "history: it contains no evaluation"),
        ([{"event": "step", "step": 1}], "last", "history: it contains no evaluation"),
        ([{"step": 1, "scores": {"snd": math.nan}}], "snd", "missing or not finite"),
        ([{"step": 1, "scores": {"snd": 1.0}}], "oracle", "needs target labels"),
    ],
)
def test_choice_refused_with_the_reason(history, rule, words):
    with refused(words):
        best(history, rule)


@pytest.mark.parametrize("score", [entropy, infomax, snd])
@pytest.mark.parametrize(
    ("p", "words"),
    [
        ([[3.0, -2.0]], "softmax"),
        ([[math.nan, 1.0]], "NaN"),
        ([0.5, 0.5], "pass \\(n, C\\)"),
        (np.ones((0, 2)), "pass"),
    ],
)
def test_outputs_refused_with_the_reason(score, p, words):
    with refused(words):
        score(p)


def test_snd_refuses_settings_that_mean_nothing():
    with refused("temperature"):
        snd([[1.0]], temperature=0)
    with refused("most"):
        snd([[1.0]], most=1)
