"""`jumbot.tune`: what it trains, picks and writes, and that labels of the target play no part."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from jumbot.adaptation import _search as search
from jumbot.adaptation._evaluation.decision import weigh_harm
from jumbot.adaptation._evaluation.modularity import modularity, nearest
from jumbot.adaptation._queue import Run
from jumbot.adaptation._training.witnesses import SHARE
from jumbot.data._content import domain_hash
from jumbot.errors import JumbotError
from tests.adaptation.conftest import Pair
from tests.refusals import refused

SHORT: dict[str, Any] = {"jobs": 1, "steps": 12, "batch_size": 12, "evaluate_every": 0}


def tuned(pair: Pair, out: Path, **changes: Any) -> jumbot.Tuned:
    return jumbot.tune(*pair, out=out, **SHORT | changes)


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages take longer than these runs."""
    monkeypatch.setattr("jumbot.adaptation._model.Model.report", lambda self, out=None: out)
    monkeypatch.setattr("jumbot.report._tuning.write_tuning", lambda record, out: out)


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of folders, one for each time that a run is trained."""
    trained: list[str] = []
    original = Run.train

    def train(self: Run, show: bool = False) -> None:
        trained.append(self.folder.name if self.folder.parent.name != "rungs" else f"rungs/{self.folder.name}")
        original(self, show)

    monkeypatch.setattr(Run, "train", train)
    return trained


def test_everything_that_one_tuning_leaves(tmp_path: Path, blobs: Callable[..., Pair], count: list[str]) -> None:
    source, target = blobs()
    out = tmp_path / "tuned"
    best = tuned((source, target), out, runs=4)
    record = json.loads((out / "tune.json").read_text(encoding="utf-8"))
    assert record["jumbot"] == jumbot.__version__
    assert record["target"] == {"name": "there", "n": 120, "hash": domain_hash(target)}
    assert record["candidates"][0]["candidate"] == record["picked"]

    table = best.table
    assert table["candidate"].tolist() == [row["candidate"] for row in record["candidates"]]
    assert set(table["candidate"]) == {"source-only", "jumbot tau=0.5", "jumbot partial tau=0.12", "deepjdot"}
    assert np.allclose(table["evidence"], table["modularity"] + table["agreement"])
    assert table["accuracy_not_used"].between(0, 1).all()
    assert table.set_index("candidate")["mass"].isna().to_dict()["source-only"]

    # the evidence again, from the models alone
    rows = target.samples.batch(np.arange(120)).numpy()
    graph = nearest(rows)  # one scale for all columns changes no neighbour
    models = {row.candidate: jumbot.load(out / row.folder) for row in table.itertuples()}
    shares = {name: model.outputs(rows)[1].softmax(-1).numpy() for name, model in models.items()}
    mean = np.mean(list(shares.values()), axis=0)
    for row in table.itertuples():
        p = shares[row.candidate]
        assert row.modularity == pytest.approx(modularity(p.argmax(1), graph), abs=1e-6)
        assert row.agreement == pytest.approx((p * mean).sum(1).mean(), abs=1e-5)

    picked = out / table["folder"].iloc[0]
    assert best.model.run == picked
    assert (jumbot.load(out).predict(rows) == best.model.predict(rows)).all()
    assert (picked / "predictions.csv").exists()
    page = (picked / "report.html").read_text(encoding="utf-8")
    assert record["why"][0].split(":")[0] in page
    whole = (out / "tune.html").read_text(encoding="utf-8")
    text = (out / "tune.md").read_text(encoding="utf-8")
    for row in table.itertuples():
        assert f">{row.folder}<" in whole
        assert f"`{row.folder}`" in text
    assert "accuracy (not used)" in whole
    assert whole.count("(chosen)") == text.count("(chosen)") == 1
    assert "were not used" in str(best)

    before = list(count)
    assert sorted(before) == sorted(table["folder"])
    again = tuned((source, target), out, runs=4)
    assert count == before
    assert again.table["evidence"].tolist() == table["evidence"].tolist()
    tuned((source, target), out, runs=5)
    assert count == [*before, "mcc"]


@pytest.mark.usefixtures("no_pages")
def test_labels_of_the_target_change_nothing(tmp_path: Path, blobs: Callable[..., Pair]) -> None:
    source, target = blobs()
    wrong = dataclasses.replace(target, labels=np.roll(np.asarray(target.labels), 1))
    found = [
        tuned((source, each), tmp_path / name, runs=3)
        for name, each in (("right", target), ("wrong", wrong), ("none", target.unlabelled()))
    ]
    columns = ["candidate", "evidence", "modularity", "agreement", "snd"]
    for other in found[1:]:
        assert other.table[columns].to_dict() == found[0].table[columns].to_dict()
    assert found[2].table["accuracy_not_used"].isna().all()
    assert "No target label was used." in found[2].why


@pytest.mark.usefixtures("no_pages")
def test_the_poor_half_is_stopped_early(
    tmp_path: Path, blobs: Callable[..., Pair], count: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LEAST_STEPS", 9)
    best = tuned(blobs(), tmp_path / "a", runs=7, steps=9)
    short, whole = ([name for name in count if name.startswith("rungs/") == is_short] for is_short in (True, False))
    assert len(short) == 7
    assert {"source-only", "jumbot-partial-tau=0.12"} <= set(whole)
    assert 3 <= len(whole) <= 5
    table = best.table.set_index("folder")
    assert table[table["whole"]].index.tolist() != []
    assert set(table[~table["whole"]].index) == set(short) - {f"rungs/{name}" for name in whole}
    assert table["whole"].iloc[0]
    steps = json.loads((tmp_path / "a" / "rungs" / "mcc" / "config.json").read_text())["training"]["steps"]
    assert steps == 3
    assert any("stopped at a third" in sentence for sentence in best.why)
    everything = tuned(blobs(), tmp_path / "a", runs=7, steps=9, stop_early=False)
    assert everything.table["whole"].all()
    assert len(count) == 7 + 7


DEFAULT = "jumbot partial tau=0.12"


@pytest.mark.usefixtures("no_pages")
def test_source_only_is_picked_where_adapting_changes_nothing(tmp_path: Path, blobs: Callable[..., Pair]) -> None:
    """On blobs far apart every candidate says the same."""
    best = tuned(blobs(shift=0.0), tmp_path / "a", runs=3, steps=60)
    assert best.model.method["name"] == "source-only"
    assert best.why[0] == (
        f"Source-only was chosen over {DEFAULT}: {DEFAULT} would change 0.0 % of the predictions, so neither is better."
    )


@pytest.mark.usefixtures("no_pages")
def test_candidates_are_judged_by_a_part_of_the_source_that_they_never_saw(
    tmp_path: Path, blobs: Callable[..., Pair]
) -> None:
    best = tuned(blobs(n=300), tmp_path / "a", runs=2, steps=30)
    config, results = (
        json.loads((tmp_path / "a" / "source-only" / name).read_text()) for name in ("config.json", "results.json")
    )
    assert config["training"]["validation"] == SHARE
    assert results["estimated_accuracy"]["value"] is not None
    votes = {
        name: jumbot.load(tmp_path / "a" / name.replace(" ", "-")).estimated_accuracy.votes
        for name in ("source-only", DEFAULT)
    }
    rows = best.table.set_index("candidate")
    harm = weigh_harm(votes[DEFAULT], votes["source-only"], 0.5)
    assert rows.loc[DEFAULT, "secured"] == pytest.approx(harm.adapted)
    assert rows.loc["source-only", "secured"] == pytest.approx(harm.source_only)


@pytest.mark.usefixtures("no_pages")
def test_a_candidate_that_fails_is_named(
    tmp_path: Path, blobs: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Run.train

    def train(self: Run, show: bool = False) -> None:
        if self.variant.method != "source-only":
            raise JumbotError("the loss is not finite.")
        original(self, show)

    monkeypatch.setattr(Run, "train", train)
    best = tuned(blobs(), tmp_path / "a", runs=2)
    assert best.table["candidate"].tolist() == ["source-only"]
    assert "jumbot partial tau=0.12 failed: the loss is not finite." in best.why
    monkeypatch.setattr(Run, "train", lambda self, show=False: (_ for _ in ()).throw(JumbotError("no.")))
    with pytest.raises(JumbotError, match="no candidate could be trained"):
        tuned(blobs(), tmp_path / "b", runs=2)


@pytest.mark.usefixtures("no_pages")
def test_other_data_or_settings_are_refused(tmp_path: Path, blobs: Callable[..., Pair]) -> None:
    tuned(blobs(), tmp_path / "a", runs=2)
    with refused(r"another source\b"):
        tuned(blobs(seed=1), tmp_path / "a", runs=2)
    with refused(r"another options\b"):
        tuned(blobs(), tmp_path / "a", runs=2, steps=13)
    with refused(r"another seed\b"):
        tuned(blobs(), tmp_path / "a", runs=2, seed=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tau": 0.5}, "tau: got 0.5; options of methods are what tune chooses"),
        ({"stps": 5}, "stps is not an option of training, network, inputs or reading; did you mean 'steps'"),
        ({"select": "oracle"}, "select: 'oracle' looks at target labels"),
        ({"backbone": torch.nn.Linear(2, 2)}, "backbone must be a name, got a module"),
        ({"batch_size": 0}, "batch_size must"),
        ({"recipe": "tabel"}, "recipe: 'tabel' is not known"),
        ({"runs": 1}, "runs must be a whole number >= 2"),
        ({"minutes": 0}, "minutes must"),
        ({"jobs": 0}, "jobs must"),
        ({"seed": -1}, "seed must"),
        ({"stop_early": "no"}, "stop_early: got 'no'"),
        ({"task": "numbers"}, "task"),
        ({"reading": {"task": "regression"}, "select": "snd"}, "select"),
    ],
)
def test_errors_come_before_any_work(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with refused(message.replace("(", r"\(")):
        jumbot.tune("no such source", "no such target", out=tmp_path / "a", **changes)
    assert not (tmp_path / "a").exists()


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").touch()
    with refused(r"tune\.json"):
        jumbot.tune("no such source", "no such target", out=tmp_path / "a")
    with refused("is a file"):
        jumbot.tune("no such source", "no such target", out=tmp_path / "a" / "thesis.tex")
    (tmp_path / "a" / "best").write_text("../b")
    with refused("best"):
        jumbot.load(tmp_path / "a")


SCRIPT = """
import numpy as np
import jumbot

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 60)
X = rng.normal(size=(60, 3)) + 4 * y[:, None]
found = [jumbot.tune((X, y), X, out=f"jobs{jobs}", runs=2, jobs=jobs, steps=10, evaluate_every=0) for jobs in (2, 1)]
tables = [each.table.drop(columns="seconds").to_json() for each in found]
assert tables[0] == tables[1], tables
"""


@pytest.mark.slow  # starts four interpreters
def test_parallel_jobs_from_a_plain_script(tmp_path: Path) -> None:
    """No `if __name__ == "__main__"` is needed, relative paths hold, and the answer is that of one job."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_fewest_candidates_are_tried(jobs: int, tmp_path: Path, blobs: Callable[..., Pair]) -> None:
    """Both are trained to the end at once, so no run is left for the processes."""
    assert jumbot.tune(*blobs(), out=tmp_path / "tuned", runs=2, steps=4, jobs=jobs).model is not None
