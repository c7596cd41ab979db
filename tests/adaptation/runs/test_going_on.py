"""Runs that were stopped go on from their folder alone; a folder has one writer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jumbot._settings.places import HOLDER, LOCK, writing
from jumbot.adaptation._adapt import adapt
from jumbot.adaptation._runs.folder import RunFolder
from jumbot.cli import main
from tests.cli.test_adaptation_commands import write_table
from tests.refusals import refused

QUICK = ["--steps", "12", "--batch-size", "12", "--evaluate-every", "0"]


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    return write_table(tmp_path / "here.csv", 0), write_table(tmp_path / "there.csv", 1, shift=0.5)


def signal_at(monkeypatch: pytest.MonkeyPatch, step: int, number: int) -> None:
    """Send this process a signal in the middle of a step."""
    append = RunFolder.append

    def sending(self: RunFolder, record: Any) -> None:
        if record["step"] == step:
            os.kill(os.getpid(), number)
        append(self, record)

    monkeypatch.setattr(RunFolder, "append", sending)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_folder_alone_goes_on(
    number: int,
    tables: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    options = ["--method", "dann", "--learning-rate", "0.02", "--drop", "c", *QUICK]
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patched:
        signal_at(patched, 4, number)
        assert main(["adapt", "here.csv", "there.csv", "--out", str(run), *options]) == 128 + number
    assert "5 of 12 steps are done; pass --resume to continue it" in capsys.readouterr().err
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 5
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["adapt", "--resume", "--out", str(run)]) == 0
    assert main(["adapt", *tables, "--out", str(whole), *options]) == 0
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert (run / "checkpoints" / "previous.safetensors").exists()


def test_a_stop_before_the_run_began_promises_nothing(
    tables: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jumbot.adaptation._adapt.read_data", stop)
    assert main(["adapt", *tables, "--out", str(tmp_path / "run")]) == 130
    assert "nothing was begun" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_damaged_checkpoint_is_passed_over(tables: tuple[str, str], tmp_path: Path, monkeypatch: Any) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    settings: dict[str, Any] = {"steps": 12, "batch_size": 12, "checkpoint_every": 3, "report": False}
    with monkeypatch.context() as patched:
        signal_at(patched, 7, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="8 of 12"):
            adapt(*tables, out=run, **settings)
    last = run / "checkpoints" / "last.safetensors"
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.warns(UserWarning, match=r"last\.safetensors:"):
        adapt(out=run, resume=True, report=False)
    adapt(*tables, out=whole, **settings)
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_when_no_checkpoint_is_whole_it_is_reported(tables: tuple[str, str], tmp_path: Path, monkeypatch: Any) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patched:
        signal_at(patched, 2, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            adapt(*tables, out=run, steps=6, batch_size=12, report=False)
    (run / "checkpoints" / "last.safetensors").write_bytes(b"")
    with refused(r"last\.safetensors:"):
        adapt(out=run, resume=True)


@pytest.mark.slow
def test_a_configuration_serves_again(tables: tuple[str, str], tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    assert main(["adapt", *tables, "--out", str(first), "--tau", "0.3", "--hidden", "8", *QUICK]) == 0
    config = str(first / "config.json")
    assert main(["adapt", "--config", config, "--out", str(second), "--seed", "1"]) == 0
    one, two = (json.loads((run / "config.json").read_text()) for run in (first, second))
    for part in ("method", "recipe", "network_options", "inputs", "data", "request"):
        assert one[part] == two[part], part
    assert two["training"] == one["training"] | {"seed": 1}
    assert main(["adapt", *reversed(tables), "--config", config, "--method", "mcc", "--out", str(third)]) == 0
    other = json.loads((third / "config.json").read_text())
    assert other["method"]["name"] == "mcc"
    assert other["network_options"]["hidden"] == [8]
    assert other["source"]["name"] == "there"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "run"], "SRC is missing"),
        (["here.csv", "--out", "run"], "TGT is missing"),
        (["--resume", "--out", "nothing"], "does not exist"),
        (["--config", "nothing.json", "--out", "run"], "nothing.json does not exist"),
        (["--config", "here.csv", "--out", "run"], "here.csv: is not JSON"),
    ],
)
def test_what_is_missing_is_reported(
    arguments: list[str],
    words: str,
    tables: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["adapt", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_data_from_memory_must_come_again(tmp_path: Path, blobs: Any) -> None:
    source, target = blobs()
    adapt(source, target, out=tmp_path / "run", steps=2, report=False, method="jumbot", judge=False)
    with refused("source"):
        adapt(out=tmp_path / "run", resume=True)


def test_a_folder_has_one_writer(tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    holding = (
        "import sys, time; from jumbot._settings.places import writing\n"
        "with writing(sys.argv[1]): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", holding, str(run)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert main(["adapt", *tables, "--out", str(run), *QUICK]) == 2
        output = capsys.readouterr().err
        assert f"process {other.pid} on " in output
        assert main(["compare", *tables, "--out", str(run), *QUICK]) == 2
        assert f"process {other.pid} on " in capsys.readouterr().err
        other.kill()
    assert (run / HOLDER).exists()  # what a kill leaves behind is no obstacle
    time.sleep(0.1)
    assert main(["adapt", *tables, "--out", str(run), *QUICK]) == 0
    assert not (run / LOCK).exists()
    assert not (run / HOLDER).exists()


def test_a_folder_made_for_nothing_goes_again(tmp_path: Path) -> None:
    with writing(tmp_path / "new"), refused("new"), writing(tmp_path / "new"):
        pass
    assert not (tmp_path / "new").exists()
    with refused("nothere"):
        adapt(tmp_path / "nothere", tmp_path / "nothere", out=tmp_path / "run", method="jumbot", judge=False)
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_with_another_number_of_readers(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    adapt(source, target, out=tmp_path / "run", steps=3, workers=0, report=False, method="jumbot", judge=False)
    adapt(source, target, out=tmp_path / "run", steps=3, report=False, resume=True)
    with refused(r"training\.steps.*3.*4"):
        adapt(source, target, out=tmp_path / "run", steps=4, report=False, resume=True)
