"""One warning of harm, whoever trains: `adapt`, the estimators, the command; none while candidates are compared."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumbot
from jumbot.adaptation import _finish, _judging
from jumbot.adaptation._evaluation.decision import Harm
from jumbot.adaptation._queue import Pair, Run
from jumbot.adaptation._variants import Variant
from jumbot.cli._app import main

HARM = Harm(0.5, 0.8, 0.3)
SHORT = ["--steps", "50", "--features", "8", "--hidden", "8"]
SMALL: dict[str, Any] = {"steps": 50, "seed": 0, "features": 8, "hidden": (8,)}


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y, truth = rng.integers(0, 2, 80), rng.integers(0, 2, 60)
    return rng.normal(size=(80, 2)) + y[:, None], y, rng.normal(size=(60, 2)) + truth[:, None] + 2, truth


@pytest.fixture
def harmful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_judging, "weigh_witnesses", lambda adapted, alone: HARM)


@pytest.mark.usefixtures("harmful")
def test_adapt_and_the_estimator_warn_once_of_a_named_method_in_the_same_words(rows: Any) -> None:
    X, y, T, _ = rows
    estimator = jumbot.DomainAdaptationClassifier(
        "jumbot", steps=50, n_components=8, hidden_layer_sizes=(8,), random_state=0
    )
    for train in (
        lambda: jumbot.adapt((X, y), T, method="jumbot", **SMALL),
        lambda: estimator.fit(X, y, X_target=T),
    ):
        with pytest.warns(jumbot.NegativeTransferWarning) as caught:
            train()
        assert [str(one.message) for one in caught] == [str(HARM)]
        assert caught[0].filename == __file__  # the caller's line
    assert "adaptation probably did harm" in str(HARM)


@pytest.mark.usefixtures("harmful")
def test_no_warning_where_source_only_is_returned_or_nothing_was_trained(rows: Any) -> None:
    X, y, T, _ = rows
    assert jumbot.adapt((X, y), T, **SMALL).decision.method == "source-only"
    jumbot.adapt((X, y), T, method="source-only", **SMALL)
    short = jumbot.adapt((X, y), T, method="jumbot", **SMALL | {"steps": 49})  # mostly chance
    assert short.decision.harm is None
    jumbot.adapt((X, y), T, method="jumbot", judge=False, **SMALL)


@pytest.mark.usefixtures("harmful")
def test_no_warning_where_labels_show_that_the_method_helped(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from jumbot.report import _presence

    X, y, T, truth = rows
    for better in (True, False):
        monkeypatch.setattr(_presence, "helped", lambda run, better=better: better)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            jumbot.adapt((X, y), T, method="jumbot", evaluate_on=(T, truth), **SMALL)
        assert [one.category for one in caught] == [jumbot.NegativeTransferWarning] * (not better)


@pytest.fixture
def files(rows: Any, tmp_path: Path) -> list[str]:
    X, y, T, _ = rows
    np.savez(tmp_path / "source.npz", X=X, y=y)
    np.savez(tmp_path / "target.npz", X=T)
    return [str(tmp_path / "source.npz"), str(tmp_path / "target.npz"), "--out", str(tmp_path / "run")]


@pytest.mark.usefixtures("harmful")
def test_runs_that_are_compared_do_not_warn(rows: Any, files: list[str], tmp_path: Path) -> None:
    X, y, T, _ = rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jumbot.tune((X, y), T, out=tmp_path / "tuned", runs=2, jobs=1, **SMALL)
        changes = {name: value for name, value in SMALL.items() if name != "seed"}
        run = Run(Pair("a", (X, y), T), Variant("jumbot", "jumbot"), 0, tmp_path / "run", changes=changes, judge=True)
        run.train()
        assert main(["compare", *files[:2], "--methods", "jumbot", "--out", str(tmp_path / "compared"), *SHORT]) == 0
    with pytest.warns(jumbot.NegativeTransferWarning):  # the same run, by somebody who asks for it alone
        jumbot.adapt((X, y), T, method="jumbot", out=tmp_path / "run", resume=True, **SMALL)


@pytest.mark.usefixtures("harmful")
def test_the_command_says_it_once(
    files: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    really = _finish.compared
    monkeypatch.setattr(_finish, "compared", lambda *given: replace(really(*given), changed=0.3))
    assert main(["adapt", *files, "--method", "jumbot", *SHORT]) == 0
    out, err = capfd.readouterr()
    assert "Adaptation probably did harm" in out
    assert (out + err).count("warning: negative transfer is likely") == 1
    assert "jumbot.tune" not in err  # the Python warning
