"""Records say where they come from, and a run goes on only with the data that it was started with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import jumbot
from jumbot.adaptation._grid import compare
from jumbot.adaptation._queue import Pair
from jumbot.adaptation._runs.folder import read_config
from jumbot.adaptation._runs.provenance import data_of
from jumbot.data._content import domain_hash
from tests.refusals import refused

SHORT: dict[str, Any] = {"steps": 2, "evaluate_every": 0, "batch_size": 4}


def test_a_run_tells_its_data(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    jumbot.adapt(
        source, target, out=tmp_path / "run", command="jumbot adapt a b", **SHORT, method="jumbot", judge=False
    )
    config = read_config(tmp_path / "run")
    assert config.command == "jumbot adapt a b"
    assert config.jumbot == jumbot.__version__
    assert config.data is not None
    assert {part: each.hash for part, each in config.data.items()} == {
        "source": domain_hash(source),
        "target": domain_hash(target),
    }


def test_a_run_goes_on_with_the_same_data_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    first = jumbot.adapt((X, y), X + 1, out=tmp_path / "run", **SHORT, method="jumbot", judge=False)
    again = jumbot.adapt((X, y), X + 1, out=tmp_path / "run", resume=True, **SHORT)
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))
    with refused(r"\(data"):
        jumbot.adapt((X, y), X + 2, out=tmp_path / "run", resume=True, **SHORT)


def test_a_comparison_tells_all(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    pairs = [Pair("blobs", source, target)]
    command = "jumbot compare blobs --methods jumbot:tau=0.3 mcc --seeds 2"
    record = compare(pairs, ["jumbot:tau=0.3", "mcc"], tmp_path, seeds=2, recipe="table", command=command, **SHORT)
    assert json.loads((tmp_path / "compare.json").read_text(encoding="utf-8")) == record
    assert (record["command"], record["seeds"], record["jumbot"]) == (command, [0, 1], jumbot.__version__)
    assert record["settings"]["jumbot:tau=0.3"]["method"]["tau"] == 0.3
    assert record["settings"]["mcc"]["training"]["steps"] == 2
    assert "seed" not in record["settings"]["mcc"]["training"]
    assert {each["hash"] for each in record["data"].values()} == {domain_hash(source), domain_hash(target)}
    assert record["created"] == max(
        str(read_config(folder.parent).created) for folder in tmp_path.glob("blobs/*/*/config.json")
    )


def test_runs_of_the_first_version_tell_what_they_can() -> None:
    folder = Path(__file__).resolve().parents[3] / "results" / "digits" / "U-M" / "jumbot-ones-seed0"
    assert data_of([folder]) == {"usps": {"n": 7291}, "mnist": {"n": 60000}}
