"""Several processes under torchrun: the gradients of one, and a clear end when one of them is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

TRAINED = """
import sys, numpy as np, torch
from dataclasses import fields, replace
from jumbot.adaptation._networks.build import table_network
from jumbot._settings.training import Training
from jumbot.adaptation._training.batches import Batches
from jumbot.adaptation._training.loop import Trainer
from jumbot.adaptation._training.parts import TrainingData
from jumbot.adaptation._evaluation.task import task_of
from jumbot.data._domain import ArraySamples, Domain
from jumbot.methods import make_method

method, seen, joined = sys.argv[1], eval(sys.argv[2]), sys.argv[3] == "one"
rng = np.random.default_rng(0)
n = 80
labels, origins = rng.choice(3, n, p=(0.6, 0.3, 0.1)), rng.integers(2, size=n)
source = Domain("here", ArraySamples(rng.normal(size=(n, 4)) + labels[:, None]), labels, ("a", "b", "c"))
if seen["sources"]:
    source = replace(source, origins=origins, sources=("one", "two"))
target = Domain("there", ArraySamples(rng.normal(size=(n, 4)) + 1))
known = Domain("known", ArraySamples(rng.normal(size=(9, 4))), np.arange(9) % 3, ("a", "b", "c"))

class Joined(Batches):  # the k pairs of minibatches of a step as one pair
    def load(self, step):
        pairs, rows = zip(*super().load(step))
        first = pairs[0]
        values = {f.name: [getattr(p, f.name) for p in pairs] for f in fields(first)}
        cat = {name: torch.cat(v) for name, v in values.items() if isinstance(v[0], torch.Tensor)}
        if first.labelled is not None:
            cat["labelled"] = tuple(torch.cat(v) for v in zip(*values["labelled"]))
        return [(replace(first, **cat), np.concatenate(rows))]

options = dict(batch_size=10, sampler="shuffled", steps=12, evaluate_every=0, learning_rate=0.1, global_plan=True)
torch.manual_seed(1)
network = table_network(4, 3, features=8)
made = make_method(method, seen["options"], features=8, classes=3)
data = TrainingData(source, target, task_of(source), known if seen["known"] else None)
trainer = Trainer(data, network, made, Training(k=2 if joined else 1, **options))
if joined:
    trainer.batches.__class__ = Joined
    trainer.training = replace(trainer.training, k=1)
if seen["shares"]:  # trusted from the first step, and far from those of a minibatch
    made.proportions.shares = torch.tensor([0.1, 0.2, 0.7])
    made.proportions.decision.fill_(1)
gradients = []
made.end_step = lambda end=made.end_step: (gradients.append([p.grad.clone() for p in network.parameters()]), end())
trainer.fit()
if trainer.accelerator.is_main_process:
    state = {**made.state_dict(), **network.state_dict()}
    torch.save({"gradients": gradients, "state": state}, sys.argv[4])
trainer.accelerator.wait_for_everyone()  # none leaves the group while another still needs it
del trainer  # it holds the group, which is left at exit
"""

ENDED = """
import atexit, os, sys, numpy as np
from pathlib import Path

def left():  # registered first, so called last
    if any("gloo_runloop" in path.read_text() for path in Path("/proc/self/task").glob("*/comm")):
        print("a thread of gloo outlives the interpreter", file=sys.stderr, flush=True)
        os._exit(1)

atexit.register(left)
import jumbot

rng = np.random.default_rng(0)
x, y = rng.normal(size=(60, 4)), np.arange(60) % 3
model = jumbot.adapt((x, y), x + 1, out=sys.argv[1], steps=4, report=False)
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


PLAIN = {"sources": False, "known": False, "shares": False, "options": {}}
CASES = {
    "jumbot": ("jumbot", PLAIN),
    "deepjdot": ("deepjdot", PLAIN),
    "proportions": ("jumbot", {**PLAIN, "shares": True, "options": {"proportions": "estimated"}}),
    "sources and labels": ("jumbot", {**PLAIN, "sources": True, "known": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_as_one_with_the_joined_minibatch(tmp_path: Path, case: str) -> None:
    method, seen = CASES[case]
    done = torchrun(tmp_path, TRAINED, method, str(seen), "two", str(tmp_path / "two.pt"))
    assert done.returncode == 0, done.stderr
    alone = [sys.executable, "script.py", method, str(seen), "one", "one.pt"]
    subprocess.run(alone, check=True, timeout=180, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
    two, one = torch.load(tmp_path / "two.pt"), torch.load(tmp_path / "one.pt")
    assert len(one["gradients"]) == 12
    for found, expected in zip(two["gradients"][0], one["gradients"][0], strict=True):  # of the first step
        assert bool(expected.any())
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    for name, expected in one["state"].items():  # after all steps, scale and shares too
        torch.testing.assert_close(two["state"][name], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are found by their names in /proc")
def test_no_thread_of_gloo_outlives_the_interpreter(tmp_path: Path) -> None:
    done = torchrun(tmp_path, ENDED, str(tmp_path / "run"))  # under load such a thread ends in SIGABRT now and then
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_killed_process_ends_the_others_within_a_minute(tmp_path: Path) -> None:
    seconds = 25.0
    begin = time.monotonic()
    done = torchrun(tmp_path, KILLED, str(tmp_path / "run"), str(seconds))
    assert time.monotonic() - begin < seconds + 60
    assert done.returncode != 0
    assert "Signal 9 (SIGKILL)" in done.stderr  # said by torchrun, with the rank
