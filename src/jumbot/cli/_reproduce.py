"""`jumbot reproduce ITEM`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from jumbot._base.options import Count, Seed
from jumbot._paper import ITEMS, ONE_SEED, TRAINED, reproduce
from jumbot._paper.targets import USUAL_METHODS, check_tasks, data_of_item, of_item, published
from jumbot.adaptation._variants import read_variant, share_changes
from jumbot.cli._arguments import Argument, Option
from jumbot.cli._help import Command, Group
from jumbot.cli._parsing import UsageError, parse_with, usage_errors
from jumbot.cli._run_options import groups
from jumbot.cli._terminal import say
from jumbot.errors import suggest
from jumbot.methods import METHODS

OWN = ("tasks", "methods", "seeds", "over", "samples", "root")


@dataclass(frozen=True, kw_only=True)
class Reproduce(Command):
    """Compute a figure or table of the paper, with a JSON record of the numbers behind it.

    Items that train also accept the options of methods, training, network and inputs, to deviate from the paper's
    settings: `jumbot reproduce ITEM --help` lists them with their defaults. Interrupted runs are resumed.
    """

    examples: ClassVar = (
        ("figure 1 (a few seconds)", "jumbot reproduce fig1 --out reproduced"),
        ("a small version of every figure that needs no data", "jumbot reproduce all-synthetic --quick"),
        ("a row of table 2, from the digits in a folder", "jumbot reproduce digits --tasks U-M --root data"),
    )
    matter: ClassVar = ("out", "quick", "tasks", "methods", "seeds", "seed", "over", "samples", "root")
    trains: ClassVar = True
    listed: ClassVar = ITEMS
    item: Annotated[str, Argument("ITEM", choices=tuple(ITEMS))]
    """The item to compute, see the list below."""
    out: Path = Path("reproduced")
    """Folder for pictures, tables, records and runs."""
    quick: bool = False
    """A small version, to check that everything works."""
    seed: Seed = 0
    """The first random seed."""
    tasks: Annotated[tuple[str, ...], Option("TASK ...", aliases=("--task",))] = ()
    """Items that train: the tasks, such as U-M; by default those of the figure, U-M for digits, all of an image data
    set.
    """
    methods: Annotated[tuple[str, ...], Option("METHOD ...", choices=tuple(METHODS))] = ()
    """Items that train: the methods; by default those of the figure; for tables jumbot, for digits two more."""
    seeds: Count | None = None
    """Tables, fig6 and max: number of seeds; by default 1."""
    over: tuple[Literal["tau", "epsilon", "m"], ...] = ()
    """fig6: the parameters to vary; by default all three."""
    samples: Count | None = None
    """fig5: number of samples; by default 10000."""
    root: Annotated[Path | None, Option(aliases=("--data",))] = None
    """Items that train: folder of the data; by default JUMBOT_DATA."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.item not in ITEMS:
            raise UsageError(f"ITEM: {self.item!r} is not known; {suggest(self.item, ITEMS)}")


def _options_of(given: Mapping[str, Any]) -> list[Group]:
    """The options of an item that trains, with what it trains with by default; others have none of these."""
    item = given.get("item")
    if item not in USUAL_METHODS:
        return []
    methods = list(dict.fromkeys(read_variant(m).method for m in given.get("methods") or USUAL_METHODS[item]))
    data = data_of_item(item, given.get("tasks") or ())
    return groups(methods, data, {m: {**of_item(data), **published(data, m)} for m in methods})


def main(arguments: Sequence[str]) -> int:
    wanted, changes = parse_with(
        Reproduce,
        arguments,
        _options_of,
    )
    given: dict[str, Any] = {name: value for name in OWN if (value := getattr(wanted, name)) not in (None, ())}
    if wanted.item not in TRAINED:
        for name in (*given, *changes):
            raise UsageError(f"--{name.replace('_', '-')}: only applies to {', '.join(TRAINED)}, not to {wanted.item}.")
    for name, items in (("over", ("fig6",)), ("samples", ("fig5",)), ("seeds", set(TRAINED) - set(ONE_SEED))):
        if name in given and wanted.item not in items:
            raise UsageError(f"--{name}: only applies to {', '.join(sorted(items))}, not to {wanted.item}.")
    with usage_errors({"methods", "tasks", *changes}):
        check_tasks(data_of_item(wanted.item, wanted.tasks), wanted.tasks)
        share_changes(wanted.methods or tuple(METHODS), data_of_item(wanted.item), changes)
    from jumbot.adaptation._training.accelerator import keep_freed_memory

    keep_freed_memory()
    record = reproduce(wanted.item, wanted.out, quick=wanted.quick, seed=wanted.seed, **given, **changes)
    for claim in record["claims"]:
        say(f"{'holds        ' if claim['holds'] else 'DOES NOT HOLD'}  {claim['statement']}")
    if warning := record.get("data", {}).get("warning"):
        say(warning)
    say(f"pictures, tables, records: {wanted.out}")
    return 0
