"""Class proportions that the plan votes for: right where the evidence is good, not used where it is thin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import jumbot
from jumbot.loss import JointTransportLoss
from jumbot.methods._joint_transport import LEAST_EVIDENCE, WAIT, TargetProportions
from tests.refusals import refused


def clouds(
    counts: tuple[int, ...], shift: float, spread: float, seed: int, width: int = 8
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    centres = 4 * np.eye(len(counts), width)
    return centres[labels] + shift + spread * rng.normal(size=(len(labels), width)), labels


def observed(plan: torch.Tensor, labels: torch.Tensor, logits: torch.Tensor, steps: int = 200) -> TargetProportions:
    shares = TargetProportions(logits.shape[1])
    for step in range(steps):
        shares.observe(plan, labels, logits)
        shares.settle(step / steps)
    return shares


def test_votes_are_one_per_sample_whatever_mass_it_receives() -> None:
    # worked out by hand: two samples of class 0, one of them hardly matched but above the bound, one shared sample
    plan = torch.tensor([[0.30, 0.02, 0.10, 0.0], [0.00, 0.00, 0.30, 0.0]])
    shares = TargetProportions(2)
    shares.observe(plan, torch.tensor([0, 1]), torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1]]))
    votes, evidence = shares.seen[0][:2], shares.seen[0][2]
    torch.testing.assert_close(votes, torch.tensor([(1 + 1 + 0.25) / 3, 0.75 / 3]))
    # the fourth sample receives nothing: it has no vote, and counts against the evidence
    assert float(evidence) == pytest.approx(3 / 4)


def test_shares_are_used_only_after_the_wait_and_only_on_good_evidence() -> None:
    labels = torch.tensor([0, 1])
    plan = torch.tensor([[0.25, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 0.05]])
    agree = torch.tensor([[1.0, 0], [1, 0], [1, 0], [0, 1]])
    assert observed(plan, labels, agree).trusted
    assert not observed(plan, labels, agree.flip(1)).trusted
    # nothing moves
    assert not observed(plan * 1e-4, labels, agree).trusted
    # equal shares: nothing to correct
    assert not observed(plan[:, 2:], labels, agree[2:]).trusted
    early = TargetProportions(2)
    for step in range(1000):
        early.observe(plan, labels, agree)
        early.settle(min(step / 1000, WAIT - 1e-3))
    assert not early.trusted
    assert early.weights(labels) is None


def test_weights_follow_the_shares_whatever_the_minibatch_holds() -> None:
    plan = torch.tensor([[0.25, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 0.25]])
    shares = observed(plan, torch.tensor([0, 1]), torch.tensor([[1.0, 0], [1, 0], [1, 0], [0, 1]]))
    labels = torch.tensor([0, 1, 1, 1, 1])
    weights = shares.weights(labels)
    assert weights is not None
    assert float(weights.mean()) == pytest.approx(1)
    assert float(weights[labels == 0].sum() / weights.sum()) == pytest.approx(0.75, abs=1e-3)


def test_every_decision_is_reported() -> None:
    shares = TargetProportions(2)
    assert "too short" in shares.to_words()
    shares.decision.fill_(0)
    shares.evidence.fill_(LEAST_EVIDENCE - 0.2)
    assert "65 %" in shares.to_words()
    assert "85 %" in shares.to_words()
    shares.evidence.fill_(1.0)
    assert "same weight" in shares.to_words()
    shares.decision.fill_(1)
    shares.shares.copy_(torch.tensor([0.9, 0.1]))
    assert "40 %" in shares.to_words()


def test_loss_takes_weights_as_the_solver_does() -> None:
    torch.manual_seed(0)
    z, labels, target, logits = torch.randn(6, 3), torch.arange(6) % 2, torch.randn(5, 3), torch.randn(5, 2)
    weights = torch.tensor([1.0, 2, 3, 4, 5, 6])
    out = JointTransportLoss(0.1, 0.5, 1.0, 0.1, tol=1e-10)(z, labels, target, logits, weights_s=weights)
    cost = 0.1 * torch.cdist(z, target) ** 2 - 0.5 * logits.log_softmax(-1)[:, labels].T
    truth = jumbot.solve(cost, weights / weights.sum(), epsilon=0.1, tau=1.0)
    torch.testing.assert_close(out.plan, truth.plan, atol=1e-5, rtol=1e-4)
    for wrong in (weights[:3], -weights, 0 * weights, weights * torch.nan):
        with refused("weights_s"):
            JointTransportLoss(0.1, 0.5, 1.0, 0.1)(z, labels, target, logits, weights_s=wrong)


@pytest.mark.slow
def test_imbalanced_target_is_distinguished_from_a_hopeless_one() -> None:
    x, y = clouds((40, 40, 40, 40), 0.0, 1.0, 0)
    target, truth = clouds((150, 30, 15, 5), 1.0, 1.0, 1)
    general = {"eta1": 0.01, "eta2": 0.5, "eta3": 1.0, "tau": 0.5, "steps": 200, "evaluate_every": 0}
    model = jumbot.adapt((x, y), (target, truth), proportions="estimated", **general)
    (decision,) = model.results["decisions"]
    assert decision.startswith("classes are weighted by their estimated proportions")
    equal = jumbot.adapt((x, y), (target, truth), proportions="equal", **general)
    assert equal.results["decisions"] == []
    assert model.results["accuracy"] >= equal.results["accuracy"]
    noise = np.random.default_rng(2).normal(size=target.shape) * 3
    lost = jumbot.adapt((x, y), noise, proportions="estimated", **general)
    plain = jumbot.adapt((x, y), noise, proportions="equal", **general)
    assert "were not used" in lost.results["decisions"][0]
    # and then nothing has changed
    np.testing.assert_array_equal(lost.predict_proba(noise), plain.predict_proba(noise))


def test_thinned_targets_are_the_same_in_function_and_table() -> None:
    x, y = clouds((16, 16, 16), 0.0, 1.0, 0)
    model = jumbot.adapt((x, y), (x, y), method="source-only", steps=5, thin=8, evaluate_every=0)
    assert np.sum(model.results["confusion"], axis=1).tolist() == [16, 2, 16]
    with refused("thin"):
        jumbot.adapt((x, y), x, method="source-only", steps=5, thin=8, evaluate_every=0)


@pytest.mark.slow
def test_transport_comes_in_gradually_where_asked(tmp_path: Path) -> None:
    x, y = clouds((20, 20), 0.0, 1.0, 0)
    found = []
    for name, changes in {"plain": {}, "slow": {"eta3_ramp": 0.5}}.items():
        jumbot.adapt((x, y), x, out=tmp_path / name, steps=10, seed=1, evaluate_every=0, **changes)
        records = map(json.loads, (tmp_path / name / "metrics.jsonl").read_text().splitlines())
        found.append([record["terms"]["transport"] for record in records if record["event"] == "step"])
    assert found[1][0] == 0
    assert found[0][0] > 0
    assert 0 < found[1][2] < found[0][2]
