"""Run folders as training leaves them, made up: the report is tested on files, not on training."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = tuple("0123456789")


def make_run(
    folder: Path,
    *,
    method: str = "jumbot",
    classes: tuple[str, ...] = DIGITS,
    source: str = "digits",
    target: str = "mnist",
    seed: int = 0,
    accuracy: float | None = 0.95,
    rule: str = "last",
    options: dict[str, Any] | None = None,
    missing: tuple[int, ...] = (),
    source_steps: int = 200,
    steps: int = 600,
    rows: int = 120,
    finished: bool = True,
    reasons: tuple[str, ...] = (),
) -> Path:
    """A run that ends at `accuracy`, None for a target without labels; classes `missing` have no target sample."""
    rng = np.random.default_rng([seed, len(method), len(target)])
    folder.mkdir(parents=True)
    plan = method in ("jumbot", "deepjdot")
    usual = {"jumbot": {"eta1": 0.1, "tau": 1.0}, "deepjdot": {"eta1": 0.1}}.get(method, {})
    config = {
        "format": 1,
        "jumbot": "0.1.0",
        "created": "2026-01-02T03:04:05",
        "command": f"jumbot adapt {source} {target} --method {method}",
        "source": {"name": source, "n": 1797},
        "target": {"name": target, "n": 5000},
        "classes": list(classes),
        "method": {"name": method, **(usual if options is None else options)},
        "training": {"batch_size": 50, "epochs": 20, "learning_rate": 2e-4, "optimizer": "adam"},
        "network": {"kind": "digits", "shape": [1, 28, 28], "classes": len(classes), "features": 128},
        "input": {"kind": "image", "size": [28, 28], "channels": 1},
        "select": rule,
        "seed": seed,
    }
    _write(folder / "config.json", config)
    total = source_steps + steps
    with (folder / "metrics.jsonl").open("w", encoding="utf-8") as file:
        for step in range(total):
            file.write(json.dumps(_step(step, source_steps, total, plan, method, accuracy is not None, rng)) + "\n")
            if (step + 1) % max(1, total // 20) == 0 or step + 1 in (source_steps, total):
                done = _evaluation(step + 1, source_steps, total, plan, accuracy, classes, missing, rng)
                file.write(json.dumps(done) + "\n")
    if finished:
        _finish(folder, classes, missing, accuracy, rule, total, plan, rows, reasons, rng)
    return folder


def _step(
    step: int, source_steps: int, total: int, plan: bool, method: str, labelled: bool, rng: np.random.Generator
) -> dict[str, Any]:
    progress = step / total
    terms = {"source": float(2 * np.exp(-6 * progress) + 0.05 * rng.random())}
    found: dict[str, Any] = {"event": "step", "step": step, "epoch": step // 35, "phase": "source"}
    if step >= source_steps:
        found["phase"] = "adapt"
        if plan:
            terms["transport"] = float(0.8 * np.exp(-3 * progress) + 0.05 * rng.random())
            found["mass"] = 1.0 if method == "deepjdot" else float(0.75 + 0.2 * progress + 0.01 * rng.normal())
            if labelled:
                worst = 0.1 if method == "deepjdot" else 0.03
                found["wrong_mass"] = float(abs(worst * (1.2 - progress) + 0.005 * rng.normal()))
    return {**found, "loss": sum(terms.values()), "terms": terms, "seconds": round(0.1 * step, 3)}


def _evaluation(
    step: int,
    source_steps: int,
    total: int,
    plan: bool,
    accuracy: float | None,
    classes: tuple[str, ...],
    missing: tuple[int, ...],
    rng: np.random.Generator,
) -> dict[str, Any]:
    progress = step / total
    scores = {
        "entropy": float(1.5 * np.exp(-3 * progress) + 0.02 * rng.random()),
        "infomax": float(2.2 - 1.5 * np.exp(-3 * progress)),
        "snd": float(3 + progress + 0.05 * rng.random()),
        "source_validation": float(0.98 - 0.3 * np.exp(-6 * progress)),
    }
    if plan:
        scores["transport"] = float(0.4 * np.exp(-2 * progress) + 0.1)
    found: dict[str, Any] = {
        "event": "evaluation",
        "step": step,
        "epoch": step // 35,
        "phase": "source" if step <= source_steps else "adapt",
        "scores": scores,
        "seconds": round(0.1 * step, 3),
    }
    if accuracy is not None:
        now = 0.4 + (accuracy - 0.4) * float(1 - np.exp(-6 * progress)) / (1 - np.exp(-6))
        found |= {
            "accuracy": now,
            "mean_class_accuracy": now - 0.01,
            "per_class": _per_class(classes, missing, now, rng),
        }
    return found


def _finish(
    folder: Path,
    classes: tuple[str, ...],
    missing: tuple[int, ...],
    accuracy: float | None,
    rule: str,
    total: int,
    plan: bool,
    rows: int,
    reasons: tuple[str, ...],
    rng: np.random.Generator,
) -> None:
    count = len(classes)
    shares = rng.dirichlet(np.full(count, 8.0))
    shares[list(missing)] = 0
    shares /= shares.sum()
    estimated = np.abs(shares + 0.004 * rng.normal(size=count))
    results: dict[str, Any] = {
        "rule": rule,
        "selected_step": total,
        "oracle": rule == "oracle",
        "seconds": 0.1 * total,
    }
    truth = rng.choice(count, 5000, p=shares)
    right = rng.random(5000) < (accuracy or 0.9)
    answers = np.where(right, truth, rng.integers(0, count, 5000))
    predicted = np.bincount(answers, minlength=count) / 5000
    results["diagnosis"] = make_diagnosis(estimated / estimated.sum(), predicted, missing, reasons)
    if accuracy is not None:
        confusion = np.zeros((count, count), int)
        np.add.at(confusion, (truth, answers), 1)
        totals = confusion.sum(1)
        per_class = [float(confusion[c, c] / totals[c]) if totals[c] else None for c in range(count)]
        known = [value for value in per_class if value is not None]
        results |= {
            "accuracy": float(np.trace(confusion) / 5000),
            "mean_class_accuracy": float(np.mean(known)),
            "per_class": per_class,
            "confusion": confusion.tolist(),
        }
    _write(folder / "results.json", results)
    with (folder / "predictions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "confidence", "received_mass"])
        for place, answer in enumerate(answers):
            mass = f"{rng.beta(9, 1):.4f}" if plan else ""
            writer.writerow([f"photo_{place:04d}.jpg", classes[answer], f"{0.4 + 0.6 * rng.random():.4f}", mass])
    _embeddings(folder, count, missing, accuracy is not None, rows, rng)


def make_diagnosis(
    estimated: np.ndarray, predicted: np.ndarray, missing: tuple[int, ...], reasons: tuple[str, ...]
) -> dict[str, Any]:
    """As `Diagnosis.to_json` writes it."""
    return {
        "class_proportions": estimated.tolist(),
        "predicted_proportions": predicted.tolist(),
        "absent_classes": list(missing),
        "unexplained": [4, 17],
        "unexplained_share": 2 / 5000,
        "transported_mass": 0.93,
        "disagreement": 0.04,
        "negative_transfer": bool(reasons),
        "reasons": list(reasons),
        "settings": {"eta1": 0.1, "eta2": 0.1, "tau": 1.0, "epsilon": 0.1},
        "scaled": False,
    }


def _embeddings(
    folder: Path, count: int, missing: tuple[int, ...], labelled: bool, rows: int, rng: np.random.Generator
) -> None:
    centres = 4 * rng.normal(size=(count, 16))
    present = [c for c in range(count) if c not in missing]
    source_labels, target_labels = rng.integers(0, count, rows), rng.choice(present, rows)
    shift = 3 * rng.normal(size=16)

    def cloud(labels: np.ndarray, offset: np.ndarray | float) -> np.ndarray:
        return (centres[labels] + offset + rng.normal(size=(len(labels), 16))).astype(np.float16)

    np.savez(
        folder / "embeddings.npz",
        before_source=cloud(source_labels, 0.0),
        before_target=cloud(target_labels, shift),
        after_source=cloud(source_labels, 0.0),
        after_target=cloud(target_labels, 0.2 * shift),
        source_labels=source_labels,
        target_labels=target_labels if labelled else np.full(rows, -1),
        target_predictions=target_labels,
    )


def _per_class(
    classes: tuple[str, ...], missing: tuple[int, ...], accuracy: float, rng: np.random.Generator
) -> list[float | None]:
    values = np.clip(accuracy + 0.05 * rng.normal(size=len(classes)), 0, 1).tolist()
    return [None if place in missing else value for place, value in enumerate(values)]


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
