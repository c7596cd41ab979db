"""`print(model)` is read at a glance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import jumbot

RNG = np.random.default_rng(0)
Y = np.arange(60) % 12
X = RNG.normal(size=(60, 3)) + Y[:, None]


@pytest.mark.parametrize("labelled", [False, True])
def test_a_classifier_in_ten_lines(labelled: bool) -> None:
    names = np.array([f"class\x1b{i}\nx" for i in range(12)])[Y]
    model = jumbot.adapt((X, names), (X, names) if labelled else X, method="jumbot", steps=2)
    lines = str(model).splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 200
    assert lines[0] == "Model: jumbot"
    assert "12 classes: class\\x1b0\\nx, " in lines[1]
    assert "... (12 in all)" in lines[1]
    figures = [line for line in lines if line.startswith("  accuracy")]
    assert len(figures) == labelled
    assert all(" %, mean over classes " in line for line in figures)
    assert repr(model) == str(model)


def test_of_tables_and_numbers() -> None:
    table = pd.DataFrame(X, columns=["age", "height", "mass"]).assign(price=Y + 0.5)
    model = jumbot.adapt(table, table.drop(columns="price"), label="price", task="regression", steps=2)
    text = str(model)
    assert "predicts  a number" in text
    assert "tables with the columns age, height, mass" in text
    assert len(text.splitlines()) <= 10
