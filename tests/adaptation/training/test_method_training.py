"""What a method may ask of training: an optimiser of its own, extra source samples, looks at the whole target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jumbot.adaptation._adapt import adapt
from jumbot.adaptation._training.checkpoint import load_tensors
from jumbot.adaptation._training.loop import Trainer
from jumbot.methods.ba3us import BA3US
from jumbot.methods.base import Batch
from jumbot.methods.rot import ROT

SETTINGS: dict[str, Any] = {
    "steps": 24,
    "source_steps": 3,
    "checkpoint_every": 5,
    "evaluate_every": 0,
    "seed": 3,
    "judge": False,
}


@pytest.mark.parametrize("name", ["rot", "ba3us"])
def test_stopped_and_resumed_ends_with_the_same_bits(
    name: str, blobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = blobs()
    adapt(source, target, method=name, out=tmp_path / "whole", **SETTINGS)
    step = Trainer._one

    def stop(self: Trainer, *arguments: Any) -> None:
        if self.step == 17:
            raise KeyboardInterrupt
        step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_one", stop)
        with pytest.raises(KeyboardInterrupt):
            adapt(source, target, method=name, out=tmp_path / "cut", **SETTINGS)
    assert load_tensors(tmp_path / "cut" / "checkpoints" / "last.safetensors")[1]["step"] == 15
    adapt(source, target, method=name, out=tmp_path / "cut", resume=True, **SETTINGS)
    first, second = (load_tensors(tmp_path / run / "checkpoints" / "last.safetensors")[0] for run in ("whole", "cut"))
    assert first.keys() == second.keys()
    for key in first:
        assert torch.equal(first[key], second[key]), key
    assert any(key.startswith("own_optimizer.") for key in first) == (name == "rot")


def test_critic_of_rot_follows_adam_alone(blobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step of Adam moves every weight by its rate, whatever the rate and the schedule of the network."""
    source, target = blobs()
    seen: list[dict[str, torch.Tensor]] = []
    terms = ROT.terms

    def watch(self: ROT, *arguments: Any) -> Any:
        seen.append({key: value.detach().clone() for key, value in self.critic.named_parameters()})
        return terms(self, *arguments)

    monkeypatch.setattr(ROT, "terms", watch)
    adapt(source, target, method="rot", steps=2, learning_rate=1e-9, critic_rate=0.01, judge=False)
    before, after = seen
    for key in before:
        assert (after[key] - before[key]).abs().max().item() == pytest.approx(0.01, rel=1e-3), key


def test_source_only_next_to_a_method_leaves_out_its_options(blobs: Any) -> None:
    model = adapt(*blobs(), method="rot", steps=2, critic_rate=0.01)
    assert model.method["name"] == "rot"
    assert model.decision is not None


def test_extra_source_samples_are_drawn_apart(blobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the minibatch, fewer in ten stairs, none while only the source is trained on."""
    source, target = blobs()
    seen: list[Batch] = []
    terms = BA3US.terms

    def watch(self: BA3US, network: Any, batch: Batch) -> Any:
        seen.append(batch)
        return terms(self, network, batch)

    monkeypatch.setattr(BA3US, "terms", watch)
    adapt(source, target, method="ba3us", steps=20, source_steps=2, batch_size=40, judge=False)
    counts = [0 if batch.extra is None else len(batch.extra[0]) for batch in seen]
    assert counts == [count for count in range(10, 0, -1) for _ in range(2)]
    rows = [{tuple(row) for row in x.tolist()} for x in (seen[0].source, seen[0].extra[0])]  # type: ignore[index]
    assert not rows[1] <= rows[0]
    samples = source.samples.batch(np.arange(len(source))).numpy()
    for batch in seen:
        assert batch.extra is not None
        for x, label in zip(*batch.extra, strict=True):
            row = np.abs(samples - x.numpy()).sum(1).argmin()
            assert source.labels[row] == label


def test_looks_at_the_target(blobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty in a run by default; as often as the user says otherwise."""
    source, target = blobs()
    looks: list[int] = []
    monkeypatch.setattr(BA3US, "refresh", lambda self, outputs: looks.append(len(outputs.logits)))
    adapt(source, target, method="ba3us", steps=20, judge=False)
    assert looks == [len(target)] * 20
    looks.clear()
    adapt(source, target, method="ba3us", steps=12, refresh_every=10, judge=False)
    assert len(looks) == 2
