"""Several processes under torchrun: the gradients of one, and a clear end when one of them is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

GRADIENTS = """
import sys, torch, torch.distributed as dist
from jumbot.adaptation.networks.build import table_network
from jumbot.methods import make_method
from jumbot.methods.base import Batch

torch.manual_seed(0)
source, labels, target = torch.randn(12, 4).double(), torch.arange(12) % 3, torch.randn(10, 4).double()
rank, world = 0, 1
if sys.argv[2] == "two":
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
rows = [slice(rank * len(x) // world, (rank + 1) * len(x) // world) for x in (source, target)]
out = {}
for name in ("jumbot", "deepjdot"):
    torch.manual_seed(1)
    network = table_network(4, 3, features=8).double()
    method = make_method(name, {"scale": None}, features=8, classes=3)
    method.global_plan = world > 1
    terms = method.terms(network, Batch(source[rows[0]], labels[rows[0]], target[rows[1]], progress=1.0))
    torch.stack(list(terms.losses.values())).sum().backward()
    gradients = [p.grad for p in network.parameters()]
    for g in gradients if world > 1 else []:  # as DistributedDataParallel does
        dist.all_reduce(g)
        g /= world
    out[name] = {"gradients": gradients, "plan": terms.plan}
if rank == 0:
    torch.save(out, sys.argv[1])
if world > 1:
    dist.destroy_process_group()
"""

KILLED = """
import os, signal, sys, numpy as np
import jumbot

rng = np.random.default_rng(0)
x, y = rng.normal(size=(60, 4)), np.arange(60) % 3
if os.environ["RANK"] == "1":
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]))
jumbot.adapt((x, y), x + 1, out=sys.argv[1], steps=10**6, evaluate_every=0, checkpoint_every=20, report=False)
"""


def torchrun(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(text)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=180, check=False, env=environment
    )


@pytest.mark.slow
def test_two_processes_have_the_gradients_of_one_with_the_joined_minibatch(tmp_path: Path) -> None:
    done = torchrun(tmp_path, GRADIENTS, str(tmp_path / "two.pt"), "two")
    assert done.returncode == 0, done.stderr
    subprocess.run([sys.executable, "script.py", "one.pt", "one"], check=True, timeout=180, cwd=tmp_path)
    two, one = torch.load(tmp_path / "two.pt"), torch.load(tmp_path / "one.pt")
    for name, found in two.items():
        assert found["plan"].shape == (12, 10)
        torch.testing.assert_close(found["plan"], one[name]["plan"], rtol=1e-9, atol=1e-12)
        for g, expected in zip(found["gradients"], one[name]["gradients"], strict=True):
            assert bool(expected.any())
            torch.testing.assert_close(g, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.slow
def test_a_killed_process_ends_the_others_within_a_minute(tmp_path: Path) -> None:
    seconds = 25.0
    begin = time.monotonic()
    done = torchrun(tmp_path, KILLED, str(tmp_path / "run"), str(seconds))
    assert time.monotonic() - begin < seconds + 60
    assert done.returncode != 0
    assert "Signal 9 (SIGKILL)" in done.stderr  # said by torchrun, with the rank
