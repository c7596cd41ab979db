"""The `jumbot` command: reads arguments, calls the package, prints."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jumbot


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see '{self.prog} --help'\n")


#: Commands whose options are read by tyro, because they are the dataclasses of the functions; imported when used.
ADAPTATION = {
    "demo": "adapt the embedded digits with three methods; writes a report",
    "adapt": "adapt a classifier from a labelled source to an unlabelled target",
    "predict": "classes of new samples, from the model of a run",
    "evaluate": "accuracy of the model of a run on labelled samples",
    "compare": "several methods and seeds on the same data, as a table",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 something is missing, 2 bad input."""
    parser = _Parser(
        prog="jumbot", description="Optimal transport between minibatches, and adaptation of classifiers with it."
    )
    parser.add_argument("--version", action="version", version=f"jumbot {jumbot.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_distance(commands)
    _add_flow(commands)
    _add_reproduce(commands)
    doctor = commands.add_parser("doctor", help="what this machine has of all that jumbot can use")
    doctor.set_defaults(run=_doctor)
    bench = commands.add_parser("bench", help="time jumbot beside its peers (in a clone of the repository)")
    bench.add_argument("--quick", action="store_true", help="fewer rounds")
    bench.set_defaults(run=_bench)
    for name, what in ADAPTATION.items():
        commands.add_parser(name, help=what, add_help=False)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ADAPTATION:
        return _guarded(given[0], lambda: _adaptation(given[0], given[1:]))
    options = parser.parse_args(given)
    return _guarded(options.command, lambda: options.run(options))


def _guarded(command: str, run: Callable[[], int]) -> int:
    try:
        status = run()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print(f"jumbot {command}: stopped" + ("; go on with --resume" if command == "adapt" else ""), file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell calls it
    except (jumbot.JumbotError, OSError) as error:
        print(f"jumbot {command}: {error}", file=sys.stderr)
        return 2


def _adaptation(command: str, arguments: list[str]) -> int:
    try:
        from jumbot import commands
    except ImportError as error:
        print(f"jumbot {command}: needs {error.name}; install it with: pip install 'jumbot[adapt]'", file=sys.stderr)
        return 2
    return commands.main(command, arguments)


def _add_transport(parser: argparse.ArgumentParser, loss: str) -> None:
    """The options that say what the minibatch loss is, named as in the functions."""
    parser.add_argument("x", metavar="X", help="points: .npy, .npz, .csv or .parquet, one a row")
    parser.add_argument("y", metavar="Y", help="points to compare with")
    parser.add_argument("--epsilon", type=float, required=True, help="strength of the entropy, in units of the cost")
    parser.add_argument("--tau", type=float, default=math.inf, help="price of missing a marginal (default: inf, exact)")
    parser.add_argument("--loss", default=loss, help="transport or sinkhorn_divergence (default: %(default)s)")
    parser.add_argument("--cost", default="sqeuclidean", help="sqeuclidean or euclidean (default: %(default)s)")
    parser.add_argument("--divergence", default="kl", help="kl, tv, chi2, range(lo,hi), ... (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)


def _add_distance(commands: Any) -> None:
    distance = commands.add_parser(
        "distance",
        help="minibatch transport distance between two data files, with its interval",
        description="The average transport loss between minibatches of two data sets, with a 95 %% interval for its "
        "expectation. Under torchrun the minibatches are shared among the processes.",
    )
    _add_transport(distance, "transport")
    distance.add_argument("--m", type=int, nargs="+", default=[64], help="points in a minibatch; several give a curve")
    how_many = distance.add_mutually_exclusive_group()
    how_many.add_argument("--k", type=int, help="minibatches (default: 1000)")
    how_many.add_argument("--precision", type=float, help="draw until the interval's half-width (of the draw) is this")
    distance.add_argument("--reference", default="product", help="product or ones (default: %(default)s)")
    distance.add_argument("--chunk", type=int, help="minibatches solved at once; bounds the memory")
    distance.add_argument("--json", action="store_true", help="print JSON instead of text")
    distance.set_defaults(run=_distance)


def _add_flow(commands: Any) -> None:
    flow = commands.add_parser(
        "flow",
        help="move the points of one file towards those of another",
        description="Explicit Euler steps down the minibatch loss; writes the final points, or an animation.",
    )
    _add_transport(flow, "sinkhorn_divergence")
    flow.add_argument("--m", type=int, default=64, help="points in a minibatch (default: 64)")
    flow.add_argument("--k", type=int, default=1, help="minibatches a step (default: 1)")
    flow.add_argument("--steps", type=int, default=1000)
    flow.add_argument("--learning-rate", type=float, default=0.02)
    flow.add_argument(
        "--out", type=Path, default=Path("flow.npy"), help="where the final points go (default: flow.npy)"
    )
    flow.add_argument("--animate", type=Path, help="also write this .gif or .mp4 (points in the plane)")
    flow.set_defaults(run=_flow)


def _add_reproduce(commands: Any) -> None:
    from jumbot.paper import ITEMS

    items = "\n".join(f"  {name:<14} {what}" for name, what in ITEMS.items())
    reproduce = commands.add_parser(
        "reproduce",
        help="compute a figure of the paper and check what it claims",
        description=f"Writes PNG, PDF and a JSON record of the numbers behind each picture.\n\n{items}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    reproduce.add_argument("item", metavar="ITEM")
    reproduce.add_argument("--out", type=Path, default=Path("reproduced"), help="folder (default: reproduced)")
    reproduce.add_argument("--quick", action="store_true", help="a small version, in seconds")
    reproduce.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    trained = reproduce.add_argument_group("tables that train networks")
    trained.add_argument("--task", nargs="+", dest="tasks", help="tasks, such as U-M (default: U-M; images: all)")
    trained.add_argument("--seeds", type=int, help="how many seeds (default: 1)")
    trained.add_argument("--methods", nargs="+", help="methods (default: digits jumbot deepjdot source-only)")
    trained.add_argument("--reference", help="of JUMBOT's entropy: ones, as published, or product (default: ones)")
    trained.add_argument("--data", dest="root", help="folder of the data (default: $JUMBOT_DATA)")
    trained.add_argument("--source-epochs", type=int, help="epochs on the source alone (default: the paper's)")
    trained.add_argument("--epochs", type=int, help="epochs of adaptation (default: the paper's)")
    trained.add_argument("--steps", type=int, help="steps of adaptation, instead of epochs")
    trained.add_argument("--evaluate-samples", type=int, help="evaluate on this many along the way (the end: on all)")
    reproduce.set_defaults(run=_reproduce)


def _loss(options: argparse.Namespace) -> dict[str, Any]:
    names = ("epsilon", "tau", "loss", "cost", "divergence", "seed")
    return {name: getattr(options, name) for name in names}


def _distance(options: argparse.Namespace) -> int:
    from jumbot.data.tables import load_points
    from jumbot.minibatch.distributed import group

    x, y = load_points(options.x), load_points(options.y)
    for m in options.m:
        if not 1 <= m <= min(len(x), len(y)):
            raise jumbot.ArgumentError(f"m: {m} does not fit {len(x)} and {len(y)} points; use 1 <= m <= the smaller.")
    first = group()[0] == 0
    results: list[dict[str, Any]] = []
    interrupted = False
    for m in options.m:
        start = time.perf_counter()
        k = None if options.precision else options.k or 1000
        try:
            found = jumbot.estimate(
                x, y, m=m, k=k, precision=options.precision, reference=options.reference, chunk=options.chunk,
                **_loss(options),
            )  # fmt: skip
        except KeyboardInterrupt:
            interrupted = True
            break
        low, high = found.interval()
        results.append(
            {
                "m": m, "k": found.k, "value": found.value, "low": low, "high": high,
                "standard_error": found.standard_error(), "standard_error_of_draw": found.standard_error("complete"),
                "seconds": time.perf_counter() - start, "interrupted": found.interrupted,
            }
        )  # fmt: skip
        if first and not options.json:
            mark = "  (interrupted)" if found.interrupted else ""
            print(
                f"m = {m}  k = {found.k}  value {found.value:.6g}  95 % in [{low:.6g}, {high:.6g}]  "
                f"{results[-1]['seconds']:.1f} s{mark}",
                flush=True,
            )
        if interrupted := found.interrupted:
            break
    if first and options.json:
        settings = {**_loss(options), "reference": options.reference, "x": options.x, "y": options.y}
        settings["tau"] = "inf" if math.isinf(options.tau) else options.tau
        print(json.dumps({"settings": settings, "results": results}, indent=2))
    return 130 if interrupted else 0


def _flow(options: argparse.Namespace) -> int:
    import numpy as np

    from jumbot.data.tables import load_points

    x, y = load_points(options.x), load_points(options.y)
    if options.out.suffix != ".npy":
        raise jumbot.ArgumentError(f"out: {options.out} must end in .npy.")
    trajectory = jumbot.gradient_flow(
        np.array(x, dtype=np.float64), np.array(y, dtype=np.float64), m=options.m, k=options.k, steps=options.steps,
        learning_rate=options.learning_rate, **_loss(options),
    )  # fmt: skip
    np.save(options.out, trajectory.points)
    print(f"loss {trajectory.losses[0]:.6g} -> {trajectory.losses[-1]:.6g}; points: {options.out}")
    if options.animate:
        trajectory.animate(options.animate)
        print(f"animation: {options.animate}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from jumbot.doctor import examine

    return min(examine(), 1)


def _bench(options: argparse.Namespace) -> int:
    if not Path("benchmarks/__main__.py").exists():
        raise jumbot.ArgumentError(
            "there are no benchmarks here; run this in a clone of the repository, after make setup."
        )
    command = [sys.executable, "-m", "benchmarks", *(["--quick"] if options.quick else [])]
    return subprocess.run(command, check=False).returncode


def _reproduce(options: argparse.Namespace) -> int:
    from jumbot.adaptation.training.memory import keep_freed_memory
    from jumbot.paper import reproduce

    keep_freed_memory()
    names = "tasks", "seeds", "methods", "reference", "root", "source_epochs", "epochs", "steps", "evaluate_samples"
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    record = reproduce(options.item, options.out, quick=options.quick, seed=options.seed, **given)
    for claim in record["claims"]:
        print(f"{'holds        ' if claim['holds'] else 'DOES NOT HOLD'}  {claim['statement']}")
    print(f"pictures and records: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
