"""The training loop: learning, resuming bit for bit, stopping on what is not finite, several processes."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from jumbot.adaptation._adapt import adapt
from jumbot.adaptation._runs.folder import read_metrics
from jumbot.adaptation._training import checkpoint
from jumbot.adaptation._training.checkpoint import load_tensors
from jumbot.adaptation._training.loop import Trainer
from jumbot.errors import JumbotError, NotFiniteError
from tests.refusals import refused

SCRIPT = """
import sys, numpy as np
from jumbot.adaptation._adapt import adapt
from jumbot.data._domain import ArraySamples, Domain

out, resume, options = sys.argv[1], sys.argv[2] == "resume", eval(sys.argv[3])
rng = np.random.default_rng(0)
y = np.arange(60) % 3
images = (rng.random((60, 16, 16)) * 80 + 60 * y[:, None, None]).astype(np.uint8)
source = Domain("here", ArraySamples(images), y, ("a", "b", "c"))
target = Domain("there", ArraySamples(images[::-1].copy()), y[::-1].copy(), ("a", "b", "c"))
settings = dict(
    recipe="digits", batch_size=12, source_steps=4, steps=26, checkpoint_every=3, evaluate_every=10, seed=3
)
adapt(source, target, out=out, resume=resume, **{**settings, **options})
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run_script(path: Path, *arguments: str, launcher: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    script = path / "script.py"
    script.write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, *launcher, str(script), *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_tensors(folder / "model.safetensors")[0]


def test_learns_and_records(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    model = adapt(source, target, out=tmp_path / "run", steps=60, seed=1, method="jumbot", judge=False)
    assert model.results["accuracy"] > 0.95
    records = read_metrics(tmp_path / "run")
    steps = [r for r in records if r["event"] == "step"]
    assert [r["step"] for r in steps] == list(range(60))
    assert {"terms", "loss", "mass", "wrong_mass", "seconds"} <= set(steps[0])
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert {"scores", "accuracy", "per_class"} <= set(records[-1])


def test_training_is_the_same_with_and_without_target_labels(blobs: Any) -> None:
    source, target = blobs()
    seen = adapt(source, target, steps=15, seed=0, method="jumbot", judge=False)
    unseen = adapt(source, target.unlabelled(), steps=15, seed=0, method="jumbot", judge=False)
    assert "accuracy" not in unseen.results
    for a, b in zip(seen.network.parameters(), unseen.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_random_state_of_the_caller_is_left_alone(blobs: Any) -> None:
    source, target = blobs()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    adapt(source, target, steps=3, method="jumbot", judge=False)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.slow
def test_killed_and_resumed_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = run_script(tmp_path, str(tmp_path / "whole"), "fresh", "{}")
    assert whole.returncode == 0, whole.stderr
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "cut"), "fresh", "{}"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
    )
    for _ in range(6000):
        if len(read_metrics(tmp_path / "cut")) > 11:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stderr is not None
    process.stderr.close()
    assert not (tmp_path / "cut" / "model.json").exists(), "killed too late to test anything"
    with (tmp_path / "cut" / "metrics.jsonl").open("a") as file:
        file.write('{"event": "st')  # what a kill in the middle of a line leaves
    resumed = run_script(tmp_path, str(tmp_path / "cut"), "resume", "{}")
    assert resumed.returncode == 0, resumed.stderr
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name
    a, b = (
        [{k: v for k, v in r.items() if k != "seconds"} for r in read_metrics(tmp_path / name)]
        for name in ("whole", "cut")
    )
    assert a == b


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.mark.slow
def test_two_processes_are_k_equal_to_two(blobs: Any, tmp_path: Path) -> None:
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port())
    # the running scale of the embeddings is each process's own
    common = "'optimizer': 'sgd', 'steps': 4, 'source_steps': 0, 'learning_rate': .001, 'scale': None"
    two = run_script(tmp_path, str(tmp_path / "two"), "fresh", "{" + common + "}", launcher=torchrun)
    assert two.returncode == 0, two.stderr
    one = run_script(tmp_path, str(tmp_path / "one"), "fresh", "{" + common + ", 'k': 2}")
    assert one.returncode == 0, one.stderr
    first, second = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name in first:
        if "running" not in name and "num_batches" not in name:  # batch norm keeps the statistics of its own process
            torch.testing.assert_close(first[name], second[name], rtol=1e-4, atol=1e-6, msg=name)
    again = run_script(tmp_path, str(tmp_path / "two"), "resume", "{" + common + "}", launcher=torchrun)
    assert again.returncode == 0, again.stderr
    joined = run_script(
        tmp_path, str(tmp_path / "joined"), "fresh", "{" + common + ", 'global_plan': True}", launcher=torchrun
    )
    assert joined.returncode == 0, joined.stderr
    record = read_metrics(tmp_path / "joined")[0]
    assert 0 < record["mass"] < 1
    assert record["terms"]["transport"] != read_metrics(tmp_path / "two")[0]["terms"]["transport"]


def test_a_loss_that_is_not_finite_stops_and_keeps_the_checkpoint(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    with pytest.raises(NotFiniteError, match=r"step \d+ \(adapt\).*learning_rate.*step \d+"):
        adapt(
            source,
            target,
            out=tmp_path / "run",
            steps=400,
            learning_rate=1e8,
            checkpoint_every=1,
            evaluate_every=0,
            method="jumbot",
            judge=False,
        )
    tensors, header = load_tensors(tmp_path / "run" / "checkpoints" / "last.safetensors")
    assert header["step"] >= 1
    assert all(bool(torch.isfinite(t).all()) for name, t in tensors.items() if name.startswith("network"))


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch

    file = tmp_path / "last.safetensors"
    checkpoint.save_tensors(file, {"x": torch.ones(2)}, {"step": 1})

    def full(tensors: Any, path: Path, metadata: Any) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(JumbotError, match="--resume"):
        checkpoint.save_tensors(file, {"x": torch.zeros(2)}, {"step": 2})
    assert load_tensors(file)[1] == {"step": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["last.safetensors"]


def test_a_folder_is_never_overwritten(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    adapt(source, target, out=tmp_path / "run", steps=3, method="jumbot", judge=False)
    with refused("--resume"):
        adapt(source, target, out=tmp_path / "run", steps=3, method="jumbot", judge=False)
    with refused("training.steps.*3.*5"):
        adapt(source, target, out=tmp_path / "run", steps=5, resume=True)
    again = adapt(source, target, out=tmp_path / "run", steps=3, resume=True)
    assert again.results["accuracy"] is not None
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with refused("other"):
        adapt(source, target, out=tmp_path / "other", steps=3, method="jumbot", judge=False)


def test_a_run_of_another_version_is_named(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    adapt(source, target, out=tmp_path / "run", steps=3, method="jumbot", judge=False)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"format": 99, "jumbot": "9.9"}))
    with refused(r"jumbot 9\.9"):
        adapt(source, target, out=tmp_path / "run", steps=3, resume=True)


@pytest.mark.parametrize("rule", ["last", "entropy", "infomax", "snd", "source_validation", "transport", "oracle"])
def test_rules_of_selection(blobs: Any, tmp_path: Path, rule: str) -> None:
    source, target = blobs()
    model = adapt(
        source, target, out=tmp_path / "run", steps=40, evaluate_every=10, select=rule, method="jumbot", judge=False
    )
    assert model.results["rule"] == rule
    assert model.results["oracle"] == (rule == "oracle")
    history = [r for r in read_metrics(tmp_path / "run") if r["event"] == "evaluation"]
    chosen = next(r for r in history if r["step"] == model.results["selected_step"])
    assert chosen["accuracy"] == pytest.approx(model.results["accuracy"])
    if rule in ("entropy", "transport"):
        assert chosen["scores"][rule] == min(r["scores"][rule] for r in history)


def test_oracle_needs_labels(blobs: Any) -> None:
    source, target = blobs()
    with refused("oracle"):
        adapt(source, target.unlabelled(), steps=3, select="oracle", method="jumbot", judge=False)


def test_k_minibatches_a_step(blobs: Any) -> None:
    source, target = blobs()
    one, three = (adapt(source, target, steps=5, k=k, seed=2, method="jumbot", judge=False) for k in (1, 3))
    assert not torch.equal(one.network.classifier.weight, three.network.classifier.weight)
    with refused("k"):
        adapt(source, target, k=0, method="jumbot", judge=False)


def test_curves_for_tensorboard(blobs: Any, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    source, target = blobs()
    adapt(source, target, out=tmp_path / "run", steps=5, tensorboard=True, method="jumbot", judge=False)
    assert list((tmp_path / "run" / "tensorboard").rglob("events.out.tfevents*"))


def test_devices_and_precision_that_are_not_there(blobs: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    source, target = blobs()
    with refused("device"):
        adapt(source, target, steps=1, device="cuda", method="jumbot", judge=False)
    with refused("fp16"):
        adapt(source, target, steps=1, mixed_precision="fp16", method="jumbot", judge=False)


def test_the_plan_of_one_process_is_that_of_all(blobs: Any) -> None:
    source, target = blobs()
    alone, joined = (
        adapt(source, target, steps=3, global_plan=flag, seed=0, method="jumbot", judge=False).history.drop(
            columns="seconds", errors="ignore"
        )
        for flag in (False, True)
    )
    assert "wrong_mass" in alone
    assert alone.equals(joined)


def test_random_numbers_of_a_step_depend_on_the_seed_and_the_step(blobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    step = Trainer._one

    def spy(self: Trainer, *arguments: Any) -> None:
        step(self, *arguments)
        seen.append(torch.initial_seed())

    monkeypatch.setattr(Trainer, "_one", spy)
    for seed in (0, 1, 0):
        adapt(*blobs(), steps=2, source_steps=0, seed=seed, method="jumbot", judge=False)
    assert seen[:2] == seen[4:]
    assert len(set(seen)) == 4
