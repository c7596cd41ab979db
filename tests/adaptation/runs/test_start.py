"""Steps on the source alone that another run has done are taken over: the same weights as if they were repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jumbot.adaptation._adapt import adapt
from jumbot.adaptation._grid import compare
from jumbot.adaptation._queue import Pair, Run, train_all
from jumbot.adaptation._runs.folder import read_config, read_metrics
from jumbot.adaptation._training.loop import Trainer
from jumbot.adaptation._variants import Variant
from jumbot.cli import main
from tests.refusals import refused

SOURCE = (np.random.default_rng(0).normal(size=(60, 4)) + 3 * np.eye(4)[np.arange(60) % 3], np.arange(60) % 3)
TARGET = SOURCE[0] + 0.5
OTHER = SOURCE[0][:40] - 0.5
SETTINGS: dict[str, Any] = {
    "source_steps": 7,
    "steps": 9,
    "batch_size": 12,
    "evaluate_every": 4,
    "report": False,
    "judge": False,
}


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The phase of every step that is really trained."""
    done: list[str] = []
    one = Trainer._one

    def counted(self: Trainer, *arguments: Any) -> None:
        done.append(self.phase)
        one(self, *arguments)

    monkeypatch.setattr(Trainer, "_one", counted)
    return done


@pytest.mark.parametrize("validation", [0.0, 0.2])
@pytest.mark.parametrize("method", ["jumbot", None])
@pytest.mark.filterwarnings("ignore::UserWarning")  # of small data
def test_a_start_changes_nothing_that_is_judged(tmp_path: Path, method: str | None, validation: float) -> None:
    """By folds of the source, and by a part of it that the run itself holds out."""
    settings = SETTINGS | {"judge": True, "validation": validation}
    settings |= {"steps": 43} if method else {}  # with fewer, a named method is not judged
    adapt(SOURCE, TARGET, method="deepjdot", out=tmp_path / "first", **settings)
    alone = adapt(SOURCE, TARGET, method=method, out=tmp_path / "alone", **settings)
    taken = adapt(SOURCE, TARGET, method=method, out=tmp_path / "taken", start_from=tmp_path / "first", **settings)
    assert weights(tmp_path / "taken") == weights(tmp_path / "alone")
    assert taken.estimated_accuracy == alone.estimated_accuracy
    assert len(taken.estimated_accuracy.votes) > 5
    assert taken.decision == alone.decision
    assert taken.decision.harm is not None
    assert taken.decision.asked == (method is not None)


def test_another_method_goes_on_from_the_same_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapt(SOURCE, TARGET, method="deepjdot", out=tmp_path / "first", **SETTINGS)
    alone, taken = tmp_path / "alone", tmp_path / "taken"
    adapt(SOURCE, TARGET, method="jumbot", out=alone, **SETTINGS)
    done = counting(monkeypatch)
    adapt(SOURCE, TARGET, method="jumbot", out=taken, start_from=tmp_path / "first", **SETTINGS)
    assert done == ["adapt"] * 9
    assert weights(taken) == weights(alone) != weights(tmp_path / "first")
    assert read_config(taken).start_from == str(Path("..", "first"))
    records = [
        [{**r, "seconds": 0, "scores": {**r.get("scores", {}), "transport": 0}} for r in read_metrics(run)]
        for run in (alone, taken)
    ]
    assert records[0] == records[1]
    early = [r for r in read_metrics(taken) if r["event"] == "evaluation" and r["step"] <= 7]
    assert [r["step"] for r in early] == [4, 7]
    assert all("transport" not in r["scores"] for r in early), "the score of the other's plan"


def test_a_start_that_is_gone_is_not_needed_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapt(SOURCE, TARGET, method="deepjdot", out=tmp_path / "first", **SETTINGS)
    adapt(SOURCE, TARGET, out=tmp_path / "alone", **SETTINGS, method="jumbot")
    settings = {**SETTINGS, "start_from": tmp_path / "first", "out": tmp_path / "run", "checkpoint_every": 2}
    one = Trainer._one

    def stopped(self: Trainer, *arguments: Any) -> None:
        if self.step == 12:
            raise KeyboardInterrupt
        one(self, *arguments)

    monkeypatch.setattr(Trainer, "_one", stopped)
    with pytest.raises(KeyboardInterrupt):
        adapt(SOURCE, TARGET, **settings)
    monkeypatch.undo()
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    with refused("first"):
        adapt(SOURCE, TARGET, **{**settings, "out": tmp_path / "new"})
    for _ in range(2):  # the second finds it finished
        adapt(SOURCE, TARGET, resume=True, **settings)
    assert weights(tmp_path / "run") == weights(tmp_path / "alone")


def test_another_target_is_looked_at_anew(tmp_path: Path) -> None:
    for name, target, more in (("first", TARGET, {}), ("alone", OTHER, {}), ("taken", OTHER, {"start_from": "first"})):
        more = {key: tmp_path / place for key, place in more.items()}
        adapt(SOURCE, target, method="jumbot", out=tmp_path / name, **more, **SETTINGS)
    assert weights(tmp_path / "taken") == weights(tmp_path / "alone")
    seen = {n: [r for r in read_metrics(tmp_path / n) if r["event"] == "evaluation"] for n in ("alone", "taken")}
    assert [r["step"] for r in seen["taken"]] == [7, 8, 12, 16]
    assert seen["taken"][0]["scores"] == seen["alone"][1]["scores"], "not those on the first target"


def test_source_only_is_taken_over_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = SOURCE[1]
    adapt(SOURCE, (TARGET, truth), method="source-only", out=tmp_path / "first", **SETTINGS)
    adapt(SOURCE, (OTHER, truth[:40]), method="source-only", out=tmp_path / "alone", **SETTINGS)
    done = counting(monkeypatch)
    adapt(
        SOURCE,
        (OTHER, truth[:40]),
        method="source-only",
        out=tmp_path / "taken",
        start_from=tmp_path / "first",
        **SETTINGS,
    )
    assert done == []
    assert weights(tmp_path / "taken") == weights(tmp_path / "alone")
    results = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("alone", "taken")]
    assert results[0]["accuracy"] == results[1]["accuracy"]
    assert results[0]["estimated_accuracy"] == results[1]["estimated_accuracy"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.02}, "learning_rate was 0.001, now 0.02"),
        ({"seed": 1}, "seed was 0, now 1"),
        ({"features": 16}, "network_options differs"),
        ({"standardise": "source"}, "inputs differs"),
        ({"source_steps": 8}, "source_steps was 7, now 8"),
        ({"method": "dann"}, "sampler was 'stratified', now 'shuffled'"),
        ({"method": "source-only"}, "a run of source-only"),
    ],
)
def test_another_start_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    adapt(SOURCE, TARGET, out=tmp_path / "first", **SETTINGS, method="jumbot")
    with refused(f"start_from:.*{message}"):
        adapt(SOURCE, TARGET, out=tmp_path / "run", start_from=tmp_path / "first", **{**SETTINGS, **change})
    assert not (tmp_path / "run" / "config.json").exists()


def test_other_data_are_refused(tmp_path: Path) -> None:
    adapt(SOURCE, TARGET, out=tmp_path / "first", **SETTINGS, method="jumbot")
    moved = SOURCE[0].copy()
    moved[0, 0] += 1e-9  # the same network, the same classes, nearly the same rows
    with refused("start_from"):
        adapt(
            (moved, SOURCE[1]),
            TARGET,
            start_from=tmp_path / "first",
            out=tmp_path / "run",
            **SETTINGS,
            method="jumbot",
        )
    pictures = np.random.default_rng(0).uniform(size=(2, 60, 16, 16))  # nothing is learned of them before training
    adapt((pictures[0], SOURCE[1]), pictures[1], out=tmp_path / "pictures", **SETTINGS, method="jumbot")
    with refused("start_from"):
        adapt(
            (pictures[1], SOURCE[1]),
            pictures[1],
            start_from=tmp_path / "pictures",
            **SETTINGS,
            method="jumbot",
        )
    with refused("start_from"):
        adapt(
            SOURCE,
            TARGET,
            labelled_target=(TARGET[:6], SOURCE[1][:6]),
            start_from=tmp_path / "first",
            out=tmp_path / "run",
            **SETTINGS,
            method="jumbot",
        )


def test_a_backbone_of_the_user_is_refused(tmp_path: Path) -> None:
    """Its weights before the first step are nowhere on record."""
    made = {"features": 4, **SETTINGS}
    adapt(SOURCE, TARGET, out=tmp_path / "first", backbone=torch.nn.Linear(4, 4), **made, method="jumbot")
    with refused("start_from"):
        adapt(
            SOURCE,
            TARGET,
            start_from=tmp_path / "first",
            backbone=torch.nn.Linear(4, 4),
            **made,
            method="jumbot",
        )


def test_a_folder_without_the_steps_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapt(SOURCE, TARGET, out=tmp_path / "none", **{**SETTINGS, "source_steps": 0})
    with refused("start_from"):
        adapt(SOURCE, TARGET, start_from=tmp_path / "none", **{**SETTINGS, "source_steps": 0})
    adapt(SOURCE, TARGET, out=tmp_path / "first", **SETTINGS, method="jumbot")
    for lost in ("metrics.jsonl", "checkpoints/before.safetensors"):
        held = (tmp_path / "first" / lost).read_bytes()
        (tmp_path / "first" / lost).unlink()
        with refused("start_from"):
            adapt(SOURCE, TARGET, start_from=tmp_path / "first", **SETTINGS, method="jumbot")
        (tmp_path / "first" / lost).write_bytes(held)
    data = [str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]
    np.savez(data[0], features=SOURCE[0], labels=SOURCE[1])
    np.savez(data[1], features=TARGET)
    assert main(["adapt", *data, "--out", str(tmp_path / "run"), "--start-from", str(tmp_path / "nowhere")]) == 2
    assert "config.json" in capsys.readouterr().err


def test_runs_of_a_comparison_share_their_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair("one", SOURCE, TARGET), Pair("two", SOURCE, OTHER)]
    names = ("source-only", "deepjdot", "jumbot", "dann")
    settings = {key: value for key, value in SETTINGS.items() if key not in ("report", "judge")}
    apart, together = tmp_path / "apart", tmp_path / "together"
    for pair in pairs:
        for name in names:
            run = Run(pair, Variant(name, name), 0, apart / pair.name / name / "seed0", changes=settings)
            assert train_all([run]) == {}
    done = counting(monkeypatch)
    compare(pairs, names, together, **settings)
    # once with shuffled minibatches, of source-only and dann, and once with stratified ones, of both plans
    assert (done.count("source"), done.count("adapt")) == (2 * 7, 9 + 6 * 9)
    for run in apart.glob("*/*/seed0"):
        assert weights(run) == weights(together / run.relative_to(apart))


def test_a_target_that_makes_another_network_is_trained_from_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    source = rng.uniform(size=(60, 16, 16)), SOURCE[1]
    pairs = [Pair(f"side {side}", source, rng.uniform(size=(40, side, side))) for side in (16, 20)]
    done = counting(monkeypatch)
    settings = {"source_steps": 2, "steps": 2, "batch_size": 12, "evaluate_every": 0}
    record = compare(pairs, ("deepjdot", "jumbot"), tmp_path, **settings)
    assert record["failed"] == {}
    assert (done.count("source"), done.count("adapt")) == (3 * 2, 4 * 2)  # the last pair shares its own start


def test_one_that_cannot_be_trained_stops_no_other(tmp_path: Path) -> None:
    pair = Pair("numbers", (SOURCE[0], SOURCE[0][:, 0] + 0.5), TARGET)
    settings = {"source_steps": 2, "steps": 2, "batch_size": 12, "evaluate_every": 0}
    runs = [
        Run(pair, Variant(name, name), 0, tmp_path / name, changes=settings, reading={"task": "regression"})
        for name in ("jumbot", "mcc", "deepjdot")
    ]
    assert list(train_all(runs)) == [str(tmp_path / "mcc")]
    assert runs[-1].finished


def test_trackers_hear_of_each_step_under_its_number(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    adapt(SOURCE, TARGET, method="deepjdot", out=tmp_path / "first", **SETTINGS)
    adapt(
        SOURCE,
        TARGET,
        out=tmp_path / "run",
        start_from=tmp_path / "first",
        tensorboard=True,
        **SETTINGS,
        method="jumbot",
    )
    steps = []
    for events in (tmp_path / "run" / "tensorboard").rglob("events.out.tfevents*"):
        seen = EventAccumulator(str(events))
        seen.Reload()
        steps += [each.step for each in seen.Scalars("loss")] if "loss" in seen.Tags()["scalars"] else []
    assert steps == list(range(16))
