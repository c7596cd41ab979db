"""What share of a training step is transport: the digits step of the paper, and a step on 65 + 65 feature rows.

    python -m benchmarks.loss [--out results]

The parts of each step are timed in turn, many times over; medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch

from jumbot.adaptation._networks.build import digits_network, table_network
from jumbot.loss import JointTransportLoss
from jumbot.methods import make_method
from jumbot.methods.base import Batch
from jumbot.methods.network import Network


def measure(network: Network, batch: Batch, options: dict[str, Any], rounds: int) -> dict[str, float]:
    """Milliseconds of the whole step, and of its transport part (cost, plan, loss and their gradient), medians."""
    method = make_method("jumbot", options, features=network.features, classes=network.classes)
    optimizer = torch.optim.Adam(network.parameters(), 2e-4)
    joint = JointTransportLoss(options["eta1"], options["eta2"], options["tau"], options["epsilon"])

    def step() -> None:
        optimizer.zero_grad()
        method.terms(network, batch).total.backward()
        optimizer.step()

    def transport() -> None:
        joint(z_s, batch.labels, z_t, logits).loss.backward()

    steps, parts = [], []
    step()
    for _ in range(rounds):
        steps.append(_time(step))
        with torch.no_grad():
            (z_s, _), (z_t, logits) = network(batch.source), network(batch.target)
        for tensor in (z_s, z_t, logits):
            tensor.requires_grad_()
        parts.append(_time(transport))
    whole, part = 1e3 * statistics.median(steps), 1e3 * statistics.median(parts)
    return {"step_ms": round(whole, 3), "transport_ms": round(part, 3), "share": round(part / whole, 4)}


def _time(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write loss.json into this folder")
    out = parser.parse_args().out
    torch.manual_seed(0)
    digits = Batch(torch.randn(500, 1, 28, 28), torch.arange(500) % 10, torch.randn(500, 1, 28, 28))
    rows = Batch(torch.rand(65, 2048), torch.arange(65), torch.rand(65, 2048))
    found = {
        "digits, 500 + 500 images of 28x28 (at most .02)": measure(
            digits_network((1, 28, 28)), digits, {"eta1": 0.1, "eta2": 0.1, "tau": 1.0, "epsilon": 0.1}, 7
        ),
        "features, 65 + 65 rows of 2048 (at most .5)": measure(
            table_network(2048, 65), rows, {"eta1": 0.01, "eta2": 0.5, "tau": 0.5, "epsilon": 0.01}, 200
        ),
    }
    for name, figures in found.items():
        print(f"{name}: {figures}")
    if out is not None:
        record = {
            "command": "python -m benchmarks.loss --out results",
            "date": str(date.today()),
            "seed": 0,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "machine": platform.machine(),
            **found,
        }
        (out / "loss.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
