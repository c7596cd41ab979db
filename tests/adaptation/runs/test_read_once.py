"""A run that ends is read back once for its card, its page and what the command prints, and files are hashed once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumbot
from jumbot.cli import _adapt
from jumbot.data import as_domain
from jumbot.data._content import content_keys, domain_hash
from jumbot.data._images import FileSamples
from jumbot.report import _records


def test_a_run_is_read_back_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        rows = np.c_[rng.normal(size=(40, 2)), np.arange(40) % 2]
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="u,v,label", comments="")
    read, parse = Counter[str](), _records.read_metrics

    def counted(folder: Path) -> Any:
        read["metrics.jsonl"] += 1
        return parse(folder)

    monkeypatch.setattr(_records, "read_metrics", counted)
    words = ["--label", "label", "--steps", "2", "--method", "jumbot", "--out", str(tmp_path / "run")]
    assert _adapt.main([str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), *words]) == 0
    assert (tmp_path / "run" / "README.md").exists()
    assert read == {"metrics.jsonl": 1}


@pytest.mark.parametrize("numbers", [False, True])
def test_results_are_the_same_before_and_after_loading(numbers: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + 0.5 if numbers else X[:, 0] > 0
    task: Any = "regression" if numbers else "classification"
    model = jumbot.adapt((X, y), (X, y), steps=2, report=False, task=task, out=tmp_path / "run")
    again = jumbot.load(tmp_path / "run")
    assert model.results == again.results
    assert model.decision == again.decision
    assert model.estimated_accuracy == again.estimated_accuracy
    assert str(model) == str(again)


def test_a_picture_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image: Any = pytest.importorskip("PIL.Image")
    for c in ("cat", "dog"):
        (tmp_path / c).mkdir()
        for i in range(2):
            image.new("L", (8, 8), 10 * i).save(tmp_path / c / f"{i}.png")
    read, content = Counter[int](), FileSamples.content

    def counted(self: FileSamples, index: int) -> bytes:
        read[index] += 1
        return content(self, index)

    monkeypatch.setattr(FileSamples, "content", counted)
    domain = as_domain(tmp_path)
    first = content_keys(domain.samples)
    assert domain_hash(domain) == domain_hash(domain)
    np.testing.assert_array_equal(content_keys(domain.samples), first)
    assert read == dict.fromkeys(range(4), 1)
