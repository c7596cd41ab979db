"""The configuration of a run is made once before data are read, then once for each method that is trained."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumbot
from jumbot.adaptation import _config

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 40)
ROWS = RNG.normal(size=(40, 3)) + 4 * LABELS[:, None]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Configurations by their method, as they are made."""
    found: Counter[str] = Counter()
    make = _config.RunConfig.__init__

    def counted(self: Any, method: str, *parts: Any, **others: Any) -> None:
        found[method] += 1
        make(self, method, *parts, **others)

    monkeypatch.setattr(_config.RunConfig, "__init__", counted)
    return found


def test_adapt(made: Counter[str]) -> None:
    jumbot.adapt((ROWS, LABELS), ROWS + 0.5, steps=2)
    assert made == {"jumbot": 2, "source-only": 1}  # the first of jumbot's checks the options before data are read


def test_adapt_by_a_method(made: Counter[str], tmp_path: Path) -> None:
    jumbot.adapt((ROWS, LABELS), ROWS + 0.5, method="dann", judge=False, steps=2, out=tmp_path / "run", report=False)
    assert made == {"dann": 2}


def test_estimator(made: Counter[str]) -> None:
    model = jumbot.DomainAdaptationClassifier(steps=2, random_state=0, batch_size=1)
    model.fit(ROWS, LABELS, X_target=ROWS + 0.5)
    assert made == {"jumbot": 2, "source-only": 2}  # the second with a batch that holds every class


def test_options_of_tune_are_tried_once_per_method(made: Counter[str]) -> None:
    with pytest.raises(jumbot.ArgumentError, match=r"nowhere\.csv"):
        jumbot.tune((ROWS, LABELS), "nowhere.csv", steps=2)
    assert made == dict.fromkeys(("source-only", "jumbot", "deepjdot", "mcc", "m-pot", "elot"), 1)


def test_a_candidate_has_its_settings_once_for_each_question(made: Counter[str], tmp_path: Path) -> None:
    jumbot.tune((ROWS, LABELS), ROWS + 0.5, out=tmp_path / "tune", runs=2, jobs=1, steps=2)
    checked = {"source-only": 1, "jumbot": 1, "deepjdot": 1, "mcc": 1, "m-pot": 1, "elot": 1}
    shared = {"jumbot": 2}  # what all candidates have, and the taus
    # checked before data are read, made from the data, and compared with what is in the folder
    trained = {"source-only": 3, "jumbot": 3}
    assert made == Counter(checked) + Counter(shared) + Counter(trained)
