"""A minibatch re-paired: `jumbot.couple` beside torchcfm's `OTPlanSampler.sample_plan`.

    python -m benchmarks.coupling [--quick] [--out results]

torchcfm's couplings need only torch, NumPy and POT: `pip install --no-deps torchcfm`.  The plans are compared first, in
float64 (the share of the mass in which they differ), then both take turns on the same minibatches in float32; medians.
The entropic plans have epsilon = a tenth of the mean cost, the unbalanced ones also tau = the mean cost.  torchcfm
stops by its own rule, jumbot at a relative gap of 1e-6.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import jumbot
from benchmarks import machine
from benchmarks.timing import interleave
from jumbot.cost import squared_euclidean

SIZES = (128, 256, 1024)
DATA: dict[str, tuple[int, ...]] = {"plane": (2,), "images": (3, 32, 32)}
MINIBATCHES = 5
METHODS = {"exact": "exact", "entropic": "sinkhorn", "unbalanced": "unbalanced"}


def minibatch(n: int, shape: tuple[int, ...], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise, and eight clusters of data around it."""
    draw = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(8, *shape, generator=draw)
    x1 = centres[torch.randint(8, (n,), generator=draw)] + 0.3 * torch.randn(n, *shape, generator=draw)
    return torch.randn(n, *shape, generator=draw), x1


def setting(coupling: str, cost: torch.Tensor) -> dict[str, float]:
    """epsilon and tau in units of the mean cost."""
    scale = float(cost.mean())
    return {"exact": {}, "entropic": {"epsilon": scale / 10}, "unbalanced": {"epsilon": scale / 10, "tau": scale}}[
        coupling
    ]


def our_plan(x0: torch.Tensor, x1: torch.Tensor, options: dict[str, float]) -> np.ndarray:
    """The plan that `couple` draws from, of mass one."""
    if not options:
        plan = np.zeros((len(x0), len(x1)))
        _, _, i, j = jumbot.couple(x0, x1, return_index=True)
        plan[i, j] = 1 / len(x0)
        return plan
    plan = jumbot.solve(squared_euclidean(x0.flatten(1), x1.flatten(1)), **options).plan.numpy()
    return plan / plan.sum()


def measure(coupling: str, n: int, shape: tuple[int, ...], sampler: Any, budget: float) -> dict[str, Any]:
    """How far the plans differ, and the milliseconds per minibatch of each."""
    solvers: dict[str, list[Callable[[], object]]] = {"jumbot": []}
    differ = []
    for seed in range(MINIBATCHES):
        x0, x1 = minibatch(n, shape, seed)
        cost = squared_euclidean(x0.flatten(1), x1.flatten(1))
        options = setting(coupling, cost)
        generator = torch.Generator().manual_seed(seed)
        solvers["jumbot"].append(partial(jumbot.couple, x0, x1, generator=generator, **options))
        if sampler is None:
            continue
        arguments = {"reg": options.get("epsilon", 0.05), "reg_m": options.get("tau", 1.0)}
        peer = sampler(METHODS[coupling], **arguments)
        solvers.setdefault("torchcfm", []).append(partial(peer.sample_plan, x0, x1))
        exact0, exact1 = x0.double(), x1.double()  # in float32 two permutations may cost the same
        theirs = peer.get_map(exact0, exact1)
        ours = our_plan(exact0, exact1, options)
        differ.append(float(np.abs(ours - theirs / theirs.sum()).sum() / 2))
    times = interleave(solvers, budget=budget, rounds=2 * MINIBATCHES)
    found: dict[str, Any] = {name: round(1e3 * statistics.median(taken), 3) for name, taken in times.items()}
    return found | ({"plans differ by": float(f"{max(differ):.1e}")} if differ else {})


def main() -> None:
    """Print a line per problem; write the record where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="half a minute: the two smaller sizes, short turns")
    parser.add_argument("--out", type=Path, help="also write coupling.json into this folder")
    options = parser.parse_args()
    try:
        from torchcfm.optimal_transport import OTPlanSampler as sampler
    except ImportError:
        sampler = None
        print("torchcfm is not installed (pip install --no-deps torchcfm): jumbot alone")
    record: dict[str, Any] = {}
    warnings.filterwarnings("ignore", module="ot")  # POT says so where it stops short
    for coupling in METHODS:
        for data, shape in DATA.items():
            for n in SIZES[:2] if options.quick else SIZES:
                found = measure(coupling, n, shape, sampler, 0.5 if options.quick else 5.0)
                record[f"{coupling}, {data}, {n} points"] = found
                ratio = f", {found['torchcfm'] / found['jumbot']:.1f}x" if sampler else ""
                print(f"{coupling:10s} {data:6s} {n:5d} points, ms per minibatch: {found}{ratio}", flush=True)
    if options.out is not None:
        about = machine.describe() | ({"torchcfm": version("torchcfm")} if sampler else {})
        command = "python -m benchmarks.coupling --out results"
        record = {"command": command, "date": str(date.today()), "machine": about, "ms per minibatch": record}
        (options.out / "coupling.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
