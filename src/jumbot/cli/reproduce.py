"""`jumbot reproduce ITEM`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from jumbot.cli.arguments import Argument, Option
from jumbot.cli.parsing import UsageError, parse
from jumbot.errors import suggest
from jumbot.methods import METHODS
from jumbot.options import Count, Options, Seed, Whole
from jumbot.paper import ITEMS, TRAINED


@dataclass(frozen=True, kw_only=True)
class Reproduce(Options):
    """Compute a figure or table of the paper, with a JSON record of the numbers behind it."""

    epilog: ClassVar[str] = "".join(f"  {name:<20} {what}\n" for name, what in ITEMS.items())
    item: Annotated[str, Argument("ITEM")]
    """What to compute, of the list below."""
    out: Path = Path("reproduced")
    """Folder of the pictures and records."""
    quick: bool = False
    """A small version, in seconds."""
    seed: Seed = 0
    """The first seed."""
    tasks: Annotated[tuple[str, ...], Option("TASK ...", aliases=("--task",))] = ()
    """Tables: tasks, such as U-M; by default U-M, and all of an image set."""
    seeds: Count | None = None
    """Tables: how many seeds; by default 1."""
    methods: Annotated[tuple[str, ...], Option("METHOD ...")] = ()
    """Tables: methods; by default jumbot, and for digits also deepjdot and source-only."""
    reference: Literal["ones", "product"] | None = None
    """Digits: of JUMBOT's entropy; by default ones, as published."""
    root: Annotated[Path | None, Option(aliases=("--data",))] = None
    """Tables: folder of the data; by default that in JUMBOT_DATA."""
    source_epochs: Whole | None = None
    """Tables: epochs on the source alone; by default the paper's."""
    epochs: Count | None = None
    """Tables: epochs of adaptation; by default the paper's."""
    steps: Count | None = None
    """Tables: steps of adaptation, instead of epochs."""
    evaluate_samples: Count | None = None
    """Tables: evaluate on this many along the way (the end: on all)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.item not in ITEMS:
            raise UsageError(f"ITEM: {self.item!r} is not known; {suggest(self.item, ITEMS)}")
        for name in self.methods:
            if name not in METHODS:
                raise UsageError(f"--methods: {name!r} is not known; {suggest(name, METHODS)}")


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Reproduce, arguments, "jumbot reproduce")
    names = ("tasks", "seeds", "methods", "reference", "root", "source_epochs", "epochs", "steps", "evaluate_samples")
    given = {name: value for name in names if (value := getattr(wanted, name)) not in (None, ())}
    if given and wanted.item not in TRAINED:
        raise UsageError(
            f"--{next(iter(given)).replace('_', '-')}: an option of {', '.join(TRAINED)}; {wanted.item} trains nothing."
        )
    from jumbot.adaptation.training.memory import keep_freed_memory
    from jumbot.paper import reproduce

    keep_freed_memory()
    record = reproduce(wanted.item, wanted.out, quick=wanted.quick, seed=wanted.seed, **given)
    for claim in record["claims"]:
        print(f"{'holds        ' if claim['holds'] else 'DOES NOT HOLD'}  {claim['statement']}")
    print(f"pictures and records: {wanted.out}")
    return 0
