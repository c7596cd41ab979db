"""Every pair of features: it runs, or is refused by name before any data are read."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from jumbot._settings.reading import Reading
from jumbot.adaptation import _grid as grid
from jumbot.adaptation._adapt import adapt
from jumbot.adaptation._config import check_changes
from jumbot.adaptation._queue import Pair
from jumbot.methods import METHODS, for_numbers
from tests.refusals import refused

N = 24
ROWS, CLASSES = np.random.default_rng(0).normal(size=(N, 3)), np.arange(N) % 2
SIGNALS = np.random.default_rng(1).normal(size=(N, 1, 16))
NOWHERE = "no such file"

FEATURES: dict[str, dict[str, Any]] = {
    "numbers": {"task": "regression"},
    "several sources": {"sources": 2},
    "labelled target": {"few": True},
    "signals": {"kind": "signal"},
    "own backbone": {"own": True},
    "estimated proportions": {"proportions": "estimated"},
    "partial": {"partial": "first:1"},
    "score of classes": {"select": "snd"},
    "score of numbers": {"select": "smoothness", "task": "regression"},
    "held-out source": {"select": "source_validation"},
    "stratified": {"sampler": "stratified"},
    "huber": {"label_loss": "huber", "task": "regression"},
}
"""What can be asked for beside rows of numbers, classes and JUMBOT."""
OF_NUMBERS = ("numbers", "score of numbers", "huber")
OF_CLASSES = ("estimated proportions", "partial", "score of classes", "stratified")
SCORES = ("score of classes", "score of numbers", "held-out source")  # one option, so that no two can be asked for
PAIRS = [pair for pair in combinations(FEATURES, 2) if not set(pair) <= set(SCORES)]
REFUSED = [pair for pair in PAIRS if set(pair) & set(OF_NUMBERS) and set(pair) & set(OF_CLASSES)]


def _request(*names: str) -> tuple[Any, Any, dict[str, Any]]:
    """(source, target, options) of a tiny run that has these features."""
    asked: dict[str, Any] = {"steps": 2, "source_steps": 0, "batch_size": 8, "evaluate_every": 1, "seed": 0}
    for name in names:
        asked |= FEATURES[name]
    X = SIGNALS if asked.get("kind") == "signal" else ROWS
    y = X.reshape(N, -1)[:, 0] if asked.get("task") == "regression" else CLASSES
    source: Any = [(X, y), (X[::-1] + 0.5, y[::-1])] if asked.pop("sources", 1) == 2 else (X, y)
    if asked.pop("few", False):
        asked["labelled_target"] = (X[:4] + 1, y[:4])
    if asked.pop("own", False):
        asked["backbone"] = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(X[0].size, 4))
    return source, (X + 0.1, y), asked


@pytest.mark.parametrize("pair", REFUSED, ids=" and ".join)
def test_pairs_that_do_not_go_together_are_refused_before_data_are_read(pair: tuple[str, str]) -> None:
    asked = _request(*pair)[2]
    with refused("task='regression'"):
        adapt(NOWHERE, NOWHERE, **asked)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair not in REFUSED], ids=" and ".join)
def test_every_other_pair_runs(pair: tuple[str, str]) -> None:
    source, target, asked = _request(*pair)
    assert len(adapt(source, target, report=False, **asked).predict(target[0])) == N


@pytest.mark.parametrize("method", [name for name in METHODS if name not in for_numbers()])
def test_methods_of_classes_refuse_numbers_before_data_are_read(method: str) -> None:
    with refused(f"method: {method}"):
        adapt(NOWHERE, NOWHERE, method=method, task="regression")
    with refused(f"method: {method}"):
        check_changes(method, None, {}, "regression")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("feature", ["numbers", "several sources", "labelled target", "signals", "own backbone"])
def test_every_method_with_every_feature(method: str, feature: str) -> None:
    if feature == "numbers" and method not in for_numbers():
        return  # refused, see above
    source, target, asked = _request(feature)
    assert len(adapt(source, target, method=method, report=False, **asked).predict(target[0])) == N


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["numbers", "several sources", "labelled target", "signals"])
def test_tune_compare_and_export_with_every_feature(
    feature: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, asked = _request(feature)
    monkeypatch.setattr("jumbot.adaptation._model.Model.report", lambda self, out=None: out)
    monkeypatch.setattr("jumbot.report._tuning.write_tuning", lambda record, out: out)
    seed = asked.pop("seed")
    best = jumbot.tune(source, target, out=tmp_path / "tuned", runs=2, jobs=1, seed=seed, **asked)
    assert len(best.table) == 2
    few, task, kind = (asked.pop(name, None) for name in ("labelled_target", "task", "kind"))
    pair = Pair("a", source, target, None, few)
    reading = Reading(task=task, kind=kind)
    record = grid.compare([pair], ["source-only", "jumbot"], tmp_path / "both", reading=reading, **asked)
    assert len(record["runs"]) == 2
    assert not record["failed"]
    outputs = best.model.module()(torch.from_numpy(np.asarray(target[0], np.float32))).detach().numpy()
    given = (best.model.predict if feature == "numbers" else best.model.predict_proba)(target[0])
    np.testing.assert_allclose(outputs.reshape(given.shape), given, atol=1e-4)


def test_a_module_is_refused_by_tune_before_data_are_read() -> None:
    with refused("backbone"):
        jumbot.tune(NOWHERE, NOWHERE, backbone=torch.nn.Linear(3, 4))


@pytest.mark.parametrize("option", [{"label_loss": "huber"}, {"select": "smoothness"}])
def test_what_is_of_numbers_is_refused_with_classes(option: dict[str, str]) -> None:
    name = next(iter(option))
    with refused(name):
        adapt(NOWHERE, NOWHERE, task="classification", **option)  # type: ignore[arg-type]
