"""Every option of the Python calls with odd values: accepted for a reason, or refused by its name before any work."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumbot
from jumbot._settings.keywords import ReadingKeywords
from jumbot.adaptation._config import option_names
from jumbot.adaptation._grid import compare
from jumbot.adaptation._queue import Pair
from jumbot.methods import METHODS
from tests.test_every_argument import NONE, NUMBER, ODD, answer

X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
NAME = {"'many'": "a name; whether there is one of it the data will say", "'3'": "a name, as before"}
RATE = {"0": "nothing of it", **NUMBER}
FLAG = {"True": "a choice"}
TEXT = {**NAME, "''": "it is only written down", **NONE}
NOTHING = {"[]": "none of them"}
ACCEPTED: dict[str, dict[str, str]] = {
    "method": NONE,
    "backbone": NONE,
    "recipe": NONE,
    "task": NONE,
    "label": NAME | NONE,
    "id": NAME | NONE,
    "drop": NAME | NOTHING,
    "dates": NAME | NOTHING | NONE | FLAG,
    "text": NAME | NOTHING | NONE | FLAG,
    "domain": NAME | NONE,
    "domain_column": NAME | NONE,
    "kind": NONE,
    "root": NAME | NONE,
    "out": NAME | NONE,
    "start_from": NONE,
    "config": NONE,
    "resume": {},
    "show": FLAG,
    "report": FLAG,
    "command": TEXT,
    "seed": {"0": "a seed"},
    "backbone_rate": RATE,
    "learning_rate": NUMBER,
    "weight_decay": RATE,
    "epsilon": {**RATE, "0": "exact"},
    "eta1": RATE,
    "eta2": RATE,
    "eta3": RATE,
    "eta3_ramp": {"0": "no ramp"},
    "scale_at": NUMBER,
    "scale": NONE,
    "reward": NUMBER,
    "mass_ramp": {"0": "no ramp"},
    "tau": {**NUMBER, "inf": "an exact marginal"},
    "reversal_ceiling": RATE,
    "weight": RATE,
    "self_training": RATE,
    "threshold": {"0": "every sample"},
    "critic_rate": NUMBER,
    "rho": RATE,
    "temperature": NUMBER,
    "auxiliary_domain": RATE,
    "auxiliary_label": RATE,
    "entropy": RATE,
    "complement": RATE,
    "extra": {"0": "none"},
    "dropout": {"0": "none"},
    "bins": {"0": "no pieces"},
    "rank": {"0": "all columns"},
    "hidden": NOTHING,
    "trackers": NOTHING,
    "partial": NAME | NONE,
    "validation": {"0": "none is held out"},
    "evaluate_every": {"0": "no evaluations", **NONE},
    "source_epochs": {"0": "none"},
    "workers": {"0": "a thread", **NONE},
    "source_steps": {"0": "none", **NONE},
    "minutes": NUMBER | NONE,
    "runs": NONE,
    "jobs": NONE,
    "stop_early": FLAG,
    "labelled_target": NONE,
    "evaluate_on": NONE,
    "labelled": NONE,
    "options": {"{}": "no changes", **NONE},
    "reading": NONE,
    "folder": NAME,
    "file": {},
    "labels": NONE,
    "random_state": {"0": "a seed", **NONE},
    "baseline": FLAG,
    "judge": FLAG,
    "unknown": FLAG,
    "coverage": NONE,
    "hidden_layer_sizes": NOTHING | NONE,
    "standardise": FLAG,
    "X_target": NONE,
    **dict.fromkeys(
        (
            "channels",
            "size",
            "checkpoint_every",
            "epochs",
            "evaluate_samples",
            "features",
            "label_loss",
            "schedule_steps",
            "steps",
            "thin",
            "weights",
            "reversal_steps",
            "refresh_every",
        ),
        NONE,
    ),
    **dict.fromkeys(("freeze", "global_plan", "tensorboard", "entropy_gradient", "ramp"), FLAG),
    "adapt.reading": NONE | {"{}": "nothing is said"},
    "tune.reading": NONE | {"{}": "nothing is said"},
    "compare.out": NAME,
    "compare.jobs": {},
    "model.domain": NONE,
    "model.write_predictions.file": NAME,
    "estimator.batch_size": NONE,
    "estimator.learning_rate": NUMBER | NONE,
    "load.backbone": NONE,
    "load.path": {},
}
"""Odd values that an option may have, and why; by its name, or by call and name."""


class Accepted(Exception):
    """Raised in the place of the work."""


def accepted(*_: Any, **__: Any) -> Any:
    raise Accepted


def walk(call: str, use: Callable[..., Any], options: Iterator[str] | list[str], **needed: Any) -> None:
    """`use` with every odd value of every option; texts of data are named themselves."""
    wrong = []
    for option in options:
        reasons = ACCEPTED.get(f"{call}.{option}", ACCEPTED.get(f"{call.partition('.')[0]}.{option}"))
        reasons = ACCEPTED.get(option, {}) if reasons is None else reasons
        for shown, value in ODD.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    message = answer(lambda: use(**{**needed, option: value}))  # noqa: B023 - called at once
            except Accepted:
                message = ""
            except Exception as error:  # what the test is about
                message = f"{type(error).__name__} {error}"
                wrong.append((option, shown, message[:200]))
                continue
            named = option in message or (isinstance(value, str) and value in ("many", "3") and f"{value}: " in message)
            if not (named if message else shown in reasons):
                wrong.append((option, shown, message[:200] or "accepted"))
    assert not wrong, "\n".join(map(str, wrong))


def parameters(function: Callable[..., Any], *left_out: str) -> list[str]:
    """Names of what a call takes, but for `**options`."""
    kinds = inspect.signature(function).parameters
    return [name for name, each in kinds.items() if each.kind is not each.VAR_KEYWORD and name not in left_out]


DATA = ("source", "target", "evaluate_on", "labelled_target")


@pytest.fixture
def nothing_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("jumbot.adaptation._adapt.read_data", accepted)
    monkeypatch.setattr("jumbot.adaptation._tune.read_data", accepted)
    monkeypatch.setattr("jumbot.adaptation._grid.train_all", accepted)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("nothing_is_read")
@pytest.mark.parametrize("method", METHODS)
def test_adapt(method: str) -> None:
    names = option_names(method)
    if method != "source-only":  # those of training, network and inputs once
        names = names - option_names("source-only")
        walk("adapt", jumbot.adapt, sorted(names), source=(X, Y), target=X, method=method)
        return
    own = [*parameters(jumbot.adapt, *DATA), *ReadingKeywords.__annotations__, "report", "command"]
    walk("adapt", jumbot.adapt, [*own, *sorted(names - {"backbone"})], source=(X, Y), target=X)


@pytest.mark.usefixtures("nothing_is_read")
def test_tune() -> None:
    own = [*parameters(jumbot.tune, *DATA), *ReadingKeywords.__annotations__, "seed", "command"]
    walk("tune", jumbot.tune, own, source=(X, Y), target=X)
    names = option_names("source-only") - {"backbone", "seed"}
    walk("tune", jumbot.tune, sorted(names), source=(X, Y), target=X, recipe="table")


@pytest.mark.usefixtures("nothing_is_read")
def test_compare() -> None:
    walk("compare", compare, parameters(compare), pairs=[Pair("a", (X, Y), X)], methods=["jumbot"], out="out")


@pytest.mark.slow
def test_data_of_adapt_and_tune(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("_adapt._train", "_adapt._train_nowhere", "_tune.Search"):
        monkeypatch.setattr(f"jumbot.adaptation.{place}", accepted)
    for call, use in (("adapt", jumbot.adapt), ("tune", jumbot.tune)):
        walk(call, use, list(DATA), source=(X, Y), target=X)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> jumbot.Model:
    place = tmp_path_factory.mktemp("model") / "run"
    return jumbot.adapt(
        (X, Y), X, steps=2, batch_size=8, features=4, out=place, report=False, method="jumbot", judge=False
    )


def test_models(model: jumbot.Model, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("written"))
    walk("load", jumbot.load, parameters(jumbot.load), path=model.run)
    reading = parameters(model.domain, "labels")
    for use in (model.predict, model.predict_proba, model.transform, model.outputs):
        walk("model", use, reading, data=X)
    walk("model", model.evaluate, ["labels", *reading], data=X, labels=Y)
    walk("model.write_predictions", model.write_predictions, ["file", *reading], data=X, file="p.csv")
    monkeypatch.chdir(tmp_path_factory.mktemp("saved"))
    walk("model", model.save, ["folder"])
    monkeypatch.setattr("jumbot.report._adaptation.write_report", accepted)
    walk("model", model.report, ["out"])
    walk("model", model.export, ["file"])


@pytest.mark.parametrize("estimator", [jumbot.DomainAdaptationClassifier, jumbot.DomainAdaptationRegressor])
def test_estimators(estimator: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn itself looks at X, y and X_target, as its users expect."""
    monkeypatch.setattr("jumbot.adaptation._training.loop.Trainer.fit", accepted)
    walk("estimator", lambda **given: estimator(**given).fit(X, Y, X_target=X), parameters(estimator))
    method_options = option_names("jumbot") - option_names("source-only")
    walk(
        "estimator",
        lambda **given: estimator().set_params(**given).fit(X, Y, X_target=X),
        sorted(method_options - ({"proportions", "eta3_ramp"} if "Regressor" in estimator.__name__ else set())),
    )
    for name in ("X", "y", "X_target"):
        for value in ODD.values():
            if value is None and name == "X_target":
                continue
            with pytest.raises((ValueError, TypeError, OverflowError)):
                estimator().fit(**{"X": X, "y": Y, "X_target": X, name: value})
