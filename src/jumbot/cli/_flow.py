"""`jumbot flow X Y --epsilon 0.1`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from jumbot._base.options import Count, Positive
from jumbot.cli._arguments import Option
from jumbot.cli._distance import MinibatchLoss
from jumbot.cli._parsing import UsageError, parse
from jumbot.cli._terminal import say


@dataclass(frozen=True, kw_only=True)
class Flow(MinibatchLoss):
    """Move points down the minibatch loss by explicit Euler steps; write the final points or an animation."""

    examples: ClassVar = (
        ("1000 steps; write flow.npy", "jumbot flow x.npy y.npy --epsilon 0.01"),
        ("ignore outliers of Y", "jumbot flow x.npy y.npy --epsilon 0.01 --tau 1"),
        ("write an animation", "jumbot flow x.csv y.csv --epsilon 0.01 --animate flow.gif"),
    )
    matter: ClassVar = ("epsilon", "tau", "m", "k", "steps", "learning_rate", "loss", "out", "animate", "seed")
    loss: Literal["transport", "sinkhorn_divergence"] = "sinkhorn_divergence"
    """The loss between two minibatches."""
    m: Annotated[Count, Option(aliases=("--minibatch-size",))] = 64
    """Points per minibatch."""
    k: Annotated[Count, Option(aliases=("--minibatches",))] = 1
    """Number of minibatches per step."""
    steps: Count = 1000
    """Number of steps."""
    learning_rate: Positive = 0.02
    """Step size."""
    out: Path = Path("flow.npy")
    """File for the final points, .npy."""
    animate: Path | None = None
    """Also write this .gif or .mp4 (points in the plane)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out.suffix != ".npy":
            raise UsageError(f"--out: {self.out} must end in .npy.")
        if self.animate is not None and self.animate.suffix not in (".gif", ".mp4"):
            raise UsageError(f"--animate: {self.animate} must end in .gif or .mp4.")


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Flow, arguments)
    loss = wanted.loss_options()
    import numpy as np

    import jumbot
    from jumbot.data._tables import load_pair

    x, y = load_pair(wanted.x, wanted.y)
    trajectory = jumbot.gradient_flow(
        np.array(x, dtype=np.float64),
        np.array(y, dtype=np.float64),
        m=wanted.m,
        k=wanted.k,
        steps=wanted.steps,
        learning_rate=wanted.learning_rate,
        **loss,
    )
    np.save(wanted.out, trajectory.points)
    say(f"loss {trajectory.losses[0]:.6g} -> {trajectory.losses[-1]:.6g}; points: {wanted.out}")
    if wanted.animate:
        trajectory.animate(wanted.animate)
        say(f"animation: {wanted.animate}")
    return 0
