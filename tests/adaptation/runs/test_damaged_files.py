"""Files that were cut, edited or replaced: named by file and field, exit status 2, no traceback, nothing changed."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumbot
from jumbot.adaptation._runs.folder import RunFolder, read_metrics
from jumbot.adaptation._training.checkpoint import load_tensors, save_tensors
from jumbot.adaptation._tune import _check_folder
from jumbot.cli import main
from jumbot.errors import JumbotError
from jumbot.report._records import read_run
from tests.cli.test_adaptation_commands import write_table
from tests.conftest import judge_quickly

NOBODY = 65534
SHORT = ["--steps", "4", "--batch-size", "9", "--features", "4", "--evaluate-every", "2"]
CHANGES: dict[str, Any] = {
    "removed": None,
    "null": None,
    "text": "many",
    "number": 3,
    "negative": -1,
    "huge": 1e10,
    "whole": 10**10,
    "nan": float("nan"),
    "list": [],
    "object": {},
    "flag": True,
}
NEEDED = {
    "model.json": ["classes", "input", "network", "method", "results", "extractor", "crops", "temperature", "format"],
    "config.json": [
        "source",
        "target",
        "classes",
        "method",
        "training",
        "network",
        "input",
        "select",
        "seed",
        "format",
    ],
    "results.json": ["rule", "oracle", "selected_step", "seconds", "diagnosis"],
    "baseline.json": ["what", "changed", "estimated_accuracy"],
    "samples.json": ["0.why", "0.row", "1.id", "1.label", "0.confidence", "0.received_mass"],
    "decision.json": ["why"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tables, a finished run, one that was stopped, a comparison, and a tuning."""
    folder = tmp_path_factory.mktemp("files")
    tables = write_table(folder / "here.csv", 0, n=36), write_table(folder / "there.csv", 1, n=36)
    named = [*SHORT, "--method", "jumbot"]  # a baseline stands beside what was adapted
    with pytest.MonkeyPatch.context() as patched:
        judge_quickly(patched)  # as in the tests, which go through the same runs again
        assert main(["adapt", *tables, "--out", str(folder / "run"), *named]) == 0
    assert main(["compare", *tables, "--out", str(folder / "compared"), "--methods", "source-only", *SHORT]) == 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("jumbot.adaptation._model.Model.report", lambda self, out=None: out)
        assert main(["tune", *tables, "--out", str(folder / "tuned"), *TUNED, *SHORT]) == 0
    shutil.copy(next((folder / "tuned").glob("*/decision.json")), folder / "run")
    with pytest.MonkeyPatch.context() as patched:
        append = RunFolder.append

        def stopping(self: RunFolder, record: Any) -> None:
            append(self, record)
            if record["step"] == 1:
                os.kill(os.getpid(), signal.SIGTERM)

        patched.setattr(RunFolder, "append", stopping)
        assert main(["adapt", *tables, "--out", str(folder / "stopped"), *named]) == 143
    return folder


@pytest.fixture
def files(place: Path, tmp_path: Path) -> Path:
    shutil.copytree(place, tmp_path / "files")
    return tmp_path / "files"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def paths(content: Any, limit: int = 2) -> Iterator[tuple[Any, ...]]:
    """The places in nested dictionaries and lists; of lists the first few."""
    items = content.items() if isinstance(content, dict) else enumerate(content[:limit])
    for key, value in items:
        yield (key,)
        if isinstance(value, dict | list):
            yield from ((key, *rest) for rest in paths(value, limit))


def damaged(content: Any, path: tuple[Any, ...], kind: str) -> Any:
    content = copy.deepcopy(content)
    holder = content
    for key in path[:-1]:
        holder = holder[key]
    if kind == "removed":
        del holder[path[-1]]
    else:
        holder[path[-1]] = CHANGES[kind]
    return content


def answer(use: Callable[[], Any]) -> str | None:
    """What is refused, if anything is; other errors pass."""
    try:
        use()
    except JumbotError as error:
        return str(error)
    return None


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
def every(request: pytest.FixtureRequest) -> bool:
    """Whether every field is changed in every way, or removed and changed in two ways, which take turns."""
    return bool(request.param)


def walk(file: Path, use: Callable[[], Any], every: bool) -> Callable[[set[str]], set[str]]:
    """`use` after changes of every field of a JSON file: it works or names the file.

    Returns which of expected refusals were tried and did not come.
    """
    whole = json.loads(file.read_text())
    tried, refused = set(), set()
    others = [kind for kind in CHANGES if kind != "removed"]
    for number, path in enumerate(paths(whole)):
        turns = [others[(2 * number + place) % len(others)] for place in range(2)]
        for kind in CHANGES if every else ("removed", *turns):
            text = json.dumps(damaged(whole, path, kind))
            file.write_text(text)
            message = answer(use)
            assert message is None or file.name in message, (path, kind, message)
            name = f"{'.'.join(map(str, path))} {kind}"
            tried.add(name)
            if message is not None:
                refused.add(name)
            assert file.read_text() == text
    file.write_text(json.dumps(whole))
    use()
    return lambda expected: (expected & tried if not every else expected) - refused


def test_every_field_of_a_model(files: Path, every: bool) -> None:
    rows = np.zeros((2, 3), np.float32)

    def use() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows without the names of their columns
            jumbot.load(files / "run").predict(rows)

    missed = walk(files / "run" / "model.json", use, every)
    expected = {f"{name} removed" for name in NEEDED["model.json"]}
    expected |= {
        f"network.{name} {kind}" for name in ("features", "classes") for kind in ("huge", "text", "whole", "nan")
    }
    expected |= {"crops text", "classes.0 removed", "input.mean.0 removed", "temperature negative", "network null"}
    assert not missed(expected)


@pytest.mark.parametrize("name", ["config.json", "results.json", "baseline.json", "samples.json", "decision.json"])
def test_every_field_of_a_record(files: Path, name: str, every: bool) -> None:
    (files / "run" / "metrics.jsonl").unlink()  # not to be read a thousand times
    missed = walk(files / "run" / name, lambda: read_run(files / "run"), every)
    assert not missed({f"{field} removed" for field in NEEDED[name]})


def test_every_field_of_a_tuning(files: Path, every: bool) -> None:
    missed = walk(files / "tuned" / "tune.json", lambda: _check_folder(files / "tuned"), every)
    needed = ("format", "jumbot", "source", "target", "recipe", "seed", "options", "candidates.0.evidence")
    assert not missed({f"{field} removed" for field in needed})
    assert not missed({"picked text", "candidates list", "candidates.0.folder number", "seed negative"})


@pytest.mark.parametrize("content", [b"", b"..", b".", b"../run", b"\xff\xfe", b"nothing", b"a\0b", b"x" * 5000])
def test_what_names_the_picked_run(files: Path, content: bytes) -> None:
    (files / "tuned" / "best").write_bytes(content)
    with pytest.raises(JumbotError, match="best: names "):
        jumbot.load(files / "tuned")


def test_every_field_of_the_metrics(files: Path) -> None:
    file = files / "run" / "metrics.jsonl"
    lines = file.read_text().splitlines()
    for number in (0, 2, len(lines) - 1):
        whole = json.loads(lines[number])
        for path in paths(whole):
            for kind in CHANGES:
                line = json.dumps(damaged(whole, path, kind))
                file.write_text("\n".join([*lines[:number], line, *lines[number + 1 :]]) + "\n")
                message = answer(lambda: read_run(files / "run"))
                if message is None:
                    assert path[0] not in ("event", "step") or kind == "number", (path, kind)
                else:
                    assert f"metrics.jsonl: line {number + 1}: " in message, (path, kind)


def test_a_line_that_was_cut_is_dropped_and_one_in_the_middle_is_named(files: Path) -> None:
    file = files / "run" / "metrics.jsonl"
    lines = file.read_text().splitlines()
    for end in (1, 30, len(lines[-1]) - 1):
        file.write_text("\n".join([*lines[:-1], lines[-1][:end]]) if end > 1 else "\n".join([*lines[:-1], '{"']))
        with pytest.warns(UserWarning, match=f"metrics.jsonl:.*{len(lines)}:"):
            assert len(read_metrics(files / "run")) == len(lines) - 1
    file.write_text("\n".join([lines[0], lines[1][:30], *lines[2:]]) + "\n")
    with pytest.raises(JumbotError, match=r"metrics\.jsonl:.*2:.*JSON"):
        read_metrics(files / "run")
    for raw in ("\n".join(lines).encode("utf-16"), "\n".join(lines).encode("utf-16-le"), bytes(range(128, 256))):
        file.write_bytes(raw)
        with pytest.raises(JumbotError, match=r"metrics\.jsonl:.*1:"):
            jumbot.load(files / "run").report(files / "again.html")
        assert not (files / "again.html").exists()


TUNED = ["--runs", "2", "--jobs", "1"]
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "predict": ("run/model.json run/model.safetensors", ["predict", "run", "there.csv", "--csv", "p.csv"]),
    "evaluate": ("run/model.json run/model.safetensors", ["evaluate", "run", "there.csv"]),
    "finished": ("run/config.json run/model.json run/model.safetensors", ["adapt", "--resume", "--out", "run"]),
    "resume": (
        "stopped/config.json stopped/metrics.jsonl stopped/checkpoints/last.safetensors",
        ["adapt", "--resume", "--out", "stopped"],
    ),
    "compare": (
        "compared/compare.json {0}/config.json {0}/results.json {0}/metrics.jsonl",
        ["compare", "here.csv", "there.csv", "--out", "compared", "--methods", "source-only", *SHORT],
    ),
    "tune": (
        "tuned/tune.json",
        ["tune", "here.csv", "there.csv", "--out", "tuned", *TUNED, *SHORT],
    ),
    "report": (
        "run/embeddings.npz run/predictions.csv run/baseline.json run/samples.json run/decision.json run/results.json",
        ["adapt", "--resume", "--out", "run"],
    ),
}


def cases() -> Iterator[Any]:
    run = "compared/here.csv-there.csv/source-only/seed0"
    for name, (where, arguments) in COMMANDS.items():
        for file in where.format(run).split():
            yield pytest.param(file, arguments, id=f"{name}-{file}")


@pytest.mark.parametrize(("file", "arguments"), list(cases()))
def test_cut_empty_or_a_folder(
    file: str, arguments: list[str], files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    (files / "run" / "report.html").unlink()  # the finished run has it made again
    path = files / file
    raw = path.read_bytes()
    cuts = sorted({len(raw) * i // 10 for i in (0, 9)})
    if path.suffix == ".jsonl":  # cut lines at the end are dropped: the first must be whole to be damaged in the middle
        cuts = [cut for cut in cuts if cut < raw.index(b"\n") and cut > 1]
        contents = [raw[:cut] + b"\n" + raw for cut in cuts[:1]] + [b"\xff\xfe\x00", b"[]\n"]
    else:
        contents = [raw[:cut] for cut in cuts] + [b"3", raw.decode("latin-1").encode("utf-16")]
        contents += [b"[]"] * (path.name != "samples.json")  # a list, which may be empty
    for content in contents:
        path.write_bytes(content)
        before = snapshot(files)
        assert main(arguments) == 2, content[:80]
        assert path.name in capsys.readouterr().err
        assert snapshot(files) == before
    path.unlink()
    path.mkdir()
    assert main(arguments) == 2
    assert path.name in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_in_the_place_of_a_checkpoint(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    last = files / "stopped" / "checkpoints" / "last.safetensors"
    tensors, header = load_tensors(last)
    shutil.copy(files / "run" / "model.safetensors", last)
    assert main(["adapt", "--resume", "--out", "stopped"]) == 2
    assert "last.safetensors: is a file of kind 'model' where 'checkpoint' is expected" in capsys.readouterr().err
    for wrong in ({"step": -1}, {"step": "x"}, {"step": 10**8}, {"step": None}, {"kind": "x"}, {"seconds": -1}):
        save_tensors(last, tensors, header | wrong)
        assert main(["adapt", "--resume", "--out", "stopped"]) == 2
        assert "last.safetensors" in capsys.readouterr().err
    for name, tensor in tensors.items():
        others = {key: value for key, value in tensors.items() if key != name}
        for case in (others, others | {name: tensor.new_zeros(7)}, others | {name: tensor.float() * float("nan")}):
            save_tensors(last, case, header)
            assert main(["adapt", "--resume", "--out", "stopped"]) == 2, name
            assert "last.safetensors" in capsys.readouterr().err


@contextmanager
def nobody(folder: Path, other: Path) -> Iterator[None]:
    """As a user to whom a mode means something, who owns `folder` and may look into the `other`: root reads all."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, -1)
    private = {p: p.stat().st_mode for p in (other, *folder.parents, *other.parents) if not p.stat().st_mode & 0o005}
    for parent in private:  # as pytest makes them
        parent.chmod(0o755)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        for parent, mode in private.items():
            parent.chmod(mode)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no modes")
def test_a_file_that_may_not_be_read(place: Path, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(files)
    (files / "run" / "report.html").unlink()
    for arguments in (COMMANDS["predict"][1], COMMANDS["evaluate"][1]):  # everything is imported before
        assert main(arguments) == 0
    with nobody(files, place):
        for name, (where, arguments) in COMMANDS.items():
            for file in where.format("compared/here.csv-there.csv/source-only/seed0").split():
                path = files / file
                path.chmod(0)
                assert main(arguments) == 2, (name, file)
                assert path.name in capsys.readouterr().err, (name, file)
                path.chmod(0o644)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_files_follow_the_umask(files: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        jumbot.load(files / "run").save(tmp_path / "shared")
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "shared").iterdir()}
    assert modes == {"model.json": 0o640, "model.safetensors": 0o640}
