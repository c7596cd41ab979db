"""Processes that read image files: the same bits as without them, gone whenever the work ends, and however."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from jumbot.adaptation._networks.features import extract
from jumbot.data import _readers as module
from jumbot.data._augment import make_transform
from jumbot.data._domain import ArraySamples, Domain, JoinedSamples
from jumbot.data._folders import load_folder
from jumbot.data._inputs import InputFormat
from jumbot.data._readers import count_workers, in_files, readers
from jumbot.errors import JumbotError
from tests.refusals import refused

image = pytest.importorskip("PIL.Image")

SCRIPT = """
import os, sys
import jumbot

print("once", flush=True)
here, there, out, workers, steps = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
model = jumbot.adapt(
    here, there, out=out, workers=workers, steps=steps, batch_size=6, evaluate_every=0, report=False, recipe="digits",
    augment="none", size=32,
)
print("done", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty pictures of two classes in each of two domains."""
    rng = np.random.default_rng(0)
    for domain in ("here", "there"):
        for kind in ("cup", "pen"):
            (tmp_path / domain / kind).mkdir(parents=True)
            for j in range(15):
                pixels = rng.integers(256, size=(48, 40 + j, 3), dtype=np.uint8)
                image.fromarray(pixels).save(tmp_path / domain / kind / f"{j}.jpg")
    return tmp_path


def formatted(folder: Path, name: str, augmented: bool = True) -> Domain:
    images = InputFormat("image", size=(40, 40), channels=3)
    transform = make_transform("resized-crop", "whole", 32) if augmented else None
    return images.apply(load_folder(folder / name), transform)


def children(parent: int) -> list[int]:
    """Processes started by `parent`, those of loky that watch over shared resources left out."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            line = stat.read_text()
            command = (stat.parent / "cmdline").read_text()
        except OSError:
            continue
        state, ppid = line.rpartition(")")[2].split()[:2]
        if int(ppid) == parent and state != "Z" and "resource_tracker" not in command:
            found.append(int(stat.parent.name))
    return found


def gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(condition, seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it takes too long"
        time.sleep(0.05)


def test_batches_are_the_same_bits(folder: Path) -> None:
    samples = {"a": formatted(folder, "here").samples, "b": formatted(folder, "there").samples}
    rows = np.arange(30)
    with readers(samples, 2) as submit:
        for number in range(3):
            for name, one in samples.items():
                for key in (None, (0, 3, number)):
                    wanted = one.batch(rows, None if key is None else np.random.default_rng(key))
                    assert torch.equal(submit(name, rows, key)(), wanted)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc")
def test_processes_are_gone_after_the_block_and_after_an_exception(folder: Path) -> None:
    samples = {"a": formatted(folder, "here").samples}
    before = set(children(os.getpid()))

    def use() -> None:
        with readers(samples, 1) as submit:
            submit("a", np.arange(4), None)()
            assert len(set(children(os.getpid())) - before) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert set(children(os.getpid())) <= before


def test_what_a_process_meets_is_raised_here(folder: Path) -> None:
    samples = {"a": formatted(folder, "here").samples}
    (folder / "here" / "cup" / "3.jpg").write_bytes(b"no picture")
    with readers(samples, 1) as submit:
        with refused(r"3\.jpg:"):
            submit("a", np.arange(30), None)()
        assert submit("a", np.array([20]), None)().shape == (1, 3, 32, 32)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc")
def test_a_killed_reader_is_an_error_that_says_what_to_do(folder: Path) -> None:
    samples = {"a": formatted(folder, "here").samples}
    before = set(children(os.getpid()))
    with readers(samples, 1) as submit:
        submit("a", np.arange(2), None)()
        (reader,) = set(children(os.getpid())) - before
        os.kill(reader, signal.SIGKILL)
        until(lambda: gone(reader))

        def go_on() -> None:
            while True:  # until the loss is noticed
                submit("a", np.arange(2), None)()

        with pytest.raises(JumbotError, match=r"1.*workers=0"):
            go_on()


def test_features_do_not_depend_on_who_reads(folder: Path) -> None:
    domain = formatted(folder, "here", augmented=False)
    backbone = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten())
    alone, read = (extract(backbone, domain, batch_size=7, workers=workers).samples.array for workers in (0, 1))
    np.testing.assert_array_equal(alone, read)


def test_how_many(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import joblib

    files, memory = formatted(folder, "here").samples, ArraySamples(np.zeros((4, 8, 8), np.uint8))
    assert in_files(files)
    assert in_files(JoinedSamples([memory, files], ["memory", "files"], "image"))
    assert not in_files(memory)
    expected = {1: 0, 2: 0, 4: 1, 6: 2, 8: 3, 64: 4}
    for cores, workers in expected.items():
        monkeypatch.setattr(joblib, "cpu_count", lambda cores=cores: cores)
        assert count_workers(None, {"a": files, "b": memory}, 10**6) == workers
    assert count_workers(None, {"a": files}, 100) == 0
    assert count_workers(None, {"a": memory}, 10**6) == 0
    assert count_workers(3, {"a": memory}, 10**6) == 0
    assert count_workers(3, {"a": files}, 1) == 3
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert count_workers(None, {"a": files}, 10**6) == 3  # 64 cores for eight processes
    monkeypatch.setattr(module, "parent_process", lambda: object())
    assert count_workers(None, {"a": files}, 10**6) == 0


def start(folder: Path, out: str, workers: int, steps: int) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(SCRIPT)  # without `if __name__ == "__main__"`
    arguments = [str(folder / "here"), str(folder / "there"), str(folder / out), str(workers), str(steps)]
    return subprocess.Popen(
        [sys.executable, str(folder / "script.py"), *arguments],
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
def test_a_plain_script_trains_to_the_same_weights(folder: Path) -> None:
    from jumbot.adaptation._training.checkpoint import load_tensors

    runs = [start(folder, f"run{workers}", workers, 12) for workers in (0, 2)]
    for run in runs:
        output, complaints = run.communicate(timeout=180)
        assert (run.returncode, output.split()) == (0, ["once", "done"]), complaints
    alone, read = (load_tensors(folder / name / "model.safetensors")[0] for name in ("run0", "run2"))
    for name, tensor in alone.items():
        assert torch.equal(read[name], tensor)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc")
@pytest.mark.parametrize("how", ["ctrl-c", "kill"])
def test_readers_end_with_the_training(folder: Path, how: str) -> None:
    """Ctrl-C reaches all processes of a terminal: training ends as it does without readers, which are gone after it."""
    run = start(folder, "run", 2, 100_000)
    metrics = folder / "run" / "metrics.jsonl"
    until(lambda: metrics.exists() and metrics.read_text().count("\n") > 3)
    started = children(run.pid)
    assert len(started) == 2
    if how == "ctrl-c":
        os.killpg(run.pid, signal.SIGINT)
    else:
        run.kill()
    _, complaints = run.communicate(timeout=60)
    assert run.returncode != 0
    if how == "ctrl-c":
        assert "KeyboardInterrupt" in complaints or "Stopped" in complaints
        assert "has ended unexpectedly" not in complaints
    until(lambda: all(map(gone, started)), 15)
