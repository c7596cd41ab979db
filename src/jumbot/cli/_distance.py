"""`jumbot distance X Y --m 64 --epsilon 0.1`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from jumbot._base.options import Bounds, Count, Positive, Seed, Weight
from jumbot._settings.names import read_divergence
from jumbot.cli._arguments import Argument, Option
from jumbot.cli._help import Command
from jumbot.cli._parsing import UsageError, parse, usage_errors
from jumbot.cli._run_options import check_places


@dataclass(frozen=True, kw_only=True)
class MinibatchLoss(Command):
    """What the minibatch loss is, named as in the functions."""

    x: Annotated[str, Argument("X")]
    """Points: .npy, .npz, .csv or .parquet, one per row."""
    y: Annotated[str, Argument("Y")]
    """The other points; named columns are matched by name."""
    epsilon: Weight
    """Strength of the entropic regularisation, in units of the cost."""
    tau: Annotated[float, Bounds(above=0, infinite=True)] = math.inf
    """Penalty for violating a marginal; inf makes it exact."""
    loss: Literal["transport", "sinkhorn_divergence"] = "transport"
    """The loss between two minibatches."""
    cost: Literal["sqeuclidean", "euclidean"] = "sqeuclidean"
    """Ground cost between points."""
    divergence: str = "kl"
    """Divergence that penalises the marginals: kl, tv, chi2, range(lo,hi), ..."""
    seed: Seed = 0
    """Random seed."""

    def loss_options(self) -> dict[str, Any]:
        """As the functions take them; checks the files and the divergence."""
        check_places(self.x, self.y)
        with usage_errors({"divergence"}):
            read_divergence(self.divergence)
        from jumbot.transport.divergences import parse as parse_divergence

        with usage_errors({"divergence"}):  # bounds of the arguments
            parse_divergence(self.divergence)
        names = ("epsilon", "tau", "loss", "cost", "divergence", "seed")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class Distance(MinibatchLoss):
    """Estimate the mean transport loss between minibatches of two data sets, with a 95 % confidence interval. Under
    torchrun the minibatches are shared among the processes."""

    examples: ClassVar = (
        ("exact marginals, 1000 minibatches of 64", "jumbot distance x.npy y.npy --epsilon 0.1"),
        (
            "unbalanced, and a curve over the minibatch size",
            "jumbot distance x.csv y.csv --epsilon 0.1 --tau 1 --m 32 64 128",
        ),
        ("until the interval has this half-width", "jumbot distance x.npy y.npy --epsilon 0.1 --precision 0.01"),
    )
    matter: ClassVar = ("epsilon", "tau", "m", "k", "precision", "loss", "cost", "divergence", "seed", "json")
    m: Annotated[tuple[Count, ...], Option(aliases=("--minibatch-size",))] = (64,)
    """Points per minibatch; several numbers give a curve."""
    k: Annotated[Count | None, Option(aliases=("--minibatches",))] = None
    """Number of minibatches to draw; by default 1000."""
    precision: Positive | None = None
    """Draw until the half-width of the interval (over the draw) is this, instead of a fixed number of minibatches."""
    reference: Literal["product", "ones"] = "product"
    """Reference measure of the entropy."""
    chunk: Count | None = None
    """Number of minibatches solved at once; limits the memory used."""
    json: bool = False
    """Print JSON instead of text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.m:
            raise UsageError("--m: no number given.")
        if self.k is not None and self.precision is not None:
            raise UsageError("--k and --precision: both were given; pass only one.")


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Distance, arguments)
    loss = wanted.loss_options()
    import jumbot
    from jumbot._base.distributed import group
    from jumbot.data._tables import load_pair

    x, y = load_pair(wanted.x, wanted.y)
    for m in wanted.m:
        if m > min(len(x), len(y)):
            least = min(len(x), len(y))
            raise jumbot.ArgumentError(f"m: {m} is more than {least}, the number of points in the smaller file.")
    first = group()[0] == 0
    results: list[dict[str, Any]] = []
    interrupted = False
    for m in wanted.m:
        start = time.perf_counter()
        k = None if wanted.precision else wanted.k or 1000
        try:
            found = jumbot.estimate(
                x, y, m=m, k=k, precision=wanted.precision, reference=wanted.reference, chunk=wanted.chunk, **loss
            )
        except KeyboardInterrupt:
            interrupted = True
            break
        low, high = found.interval()
        results.append(
            {
                "m": m,
                "k": found.k,
                "value": found.value,
                "low": low,
                "high": high,
                "standard_error": found.standard_error(),
                "standard_error_of_draw": found.standard_error("complete"),
                "seconds": time.perf_counter() - start,
                "interrupted": found.interrupted,
            }
        )
        if first and not wanted.json:
            mark = "  (interrupted)" if found.interrupted else ""
            print(
                f"m = {m}  k = {found.k}  value {found.value:.6g}  95 % in [{low:.6g}, {high:.6g}]  "
                f"{results[-1]['seconds']:.1f} s{mark}",
                flush=True,
            )
        if interrupted := found.interrupted:
            break
    if first and wanted.json:
        settings = {**loss, "reference": wanted.reference, "x": wanted.x, "y": wanted.y}
        settings["tau"] = "inf" if math.isinf(wanted.tau) else wanted.tau
        print(json.dumps({"settings": settings, "results": results}, indent=2))
    return 130 if interrupted else 0
