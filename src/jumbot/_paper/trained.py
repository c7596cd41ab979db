"""The items that train networks: which runs they need, in which folders, by which command; all resume."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from jumbot._base.schema import to_builtins
from jumbot._paper.record import Record
from jumbot._paper.targets import check_tasks, of_item, published
from jumbot._settings.places import CONFIG
from jumbot.adaptation._config import INSTEAD, make_config
from jumbot.adaptation._queue import Pair, Run, train_all
from jumbot.adaptation._runs.folder import read_config
from jumbot.adaptation._runs.provenance import data_of, settings_of
from jumbot.adaptation._variants import read_variant, share_changes
from jumbot.data import load, load_benchmark
from jumbot.data._digits import data_root
from jumbot.data._domain import Domain
from jumbot.errors import ArgumentError, JumbotError

#: Of the digits: source, target, side and channels of the network's input.
DIGITS = {"U-M": ("usps", "mnist", 28, 1), "M-MM": ("mnist", "mnistm", 28, 3), "S-M": ("svhn", "mnist", 32, 3)}
#: What `quick` changes, to see within a minute that everything is in place.
QUICK: dict[str, dict[str, Any]] = {
    "digits": {"source_epochs": 1, "epochs": 1, "batch_size": 50, "evaluate_samples": 500},
    "images": {"steps": 2, "batch_size": 8, "backbone": "resnet18", "weights": None, "evaluate_every": 0},
}
_QUICK_SAMPLES = 1000
#: Options that change the records of a run, but not its result.
_RECORDED = {"seed", "evaluate_every", "evaluate_samples", "checkpoint_every", "trackers", "tensorboard", "device"}
_NOT_SHOWN = {"show", "root"}  # of a command: it has no option for the one, and the other is a place on one machine


@dataclass(frozen=True)
class Suite:
    """The runs of one data set: "digits", "office-home", "office-home-partial" or "visda".

    `changes` are options of any method, of training, network and inputs; they deviate from the paper's settings, and
    are part of the names of the folders, `folder/ITEM/TASK/METHOD-CHANGES-seedN`.
    """

    folder: Path
    item: str
    quick: bool = False
    seed: int = 0
    seeds: int = 1
    root: str | Path | None = None
    show: bool = True
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> range:
        return range(self.seed, self.seed + self.seeds)

    def runs(self, tasks: Sequence[str], methods: Sequence[str], **more: Any) -> list[Run]:
        """Every (task, method, seed); an error before any work if one of them is invalid."""
        check_tasks(self.item, tasks)
        asked = shown_options = {**self.changes, **more}
        asked = {**of_item(self.item), **asked}
        if self.quick:
            small = QUICK["digits" if self.item == "digits" else "images"]
            replaced = {INSTEAD[name] for name in asked if name in INSTEAD}
            asked = {name: value for name, value in small.items() if name not in replaced} | asked
        changes = share_changes(methods, self.item, asked, {name: self._published(name, asked) for name in methods})
        return [
            Run(
                self._pair(task),
                method,
                number,
                place := self.place(task, method.method, own, number),
                self.item,
                {**_recorded(place, asked), **self._inputs(task), **own},
                command=command_line(
                    self.item,
                    tasks=[task],
                    methods=[method.label],
                    seed=number,
                    quick=self.quick,
                    **{name: value for name, value in shown_options.items() if name in own},
                ),
            )
            for task in tasks
            for method, own in changes
            for number in self.numbers
        ]

    def place(self, task: str, method: str, changes: Mapping[str, Any], seed: int) -> Path:
        """The folder of a run; quick ones are kept apart."""
        part = f"{self.item}-quick" if self.quick else self.item
        return self.folder / part / task / f"{run_name(method, self.item, changes)}-seed{seed}"

    def record(self, name: str, shows: str, runs: Sequence[Run], **arguments: Any) -> Record:
        """Train the runs that are not finished; the record of an item that rests on all of them, with what was said."""
        arguments = {
            **arguments,
            "seed": self.seed,
            "seeds": self.seeds if self.seeds > 1 else None,
            "quick": self.quick,
        }
        self.train(runs)
        return Record(
            name,
            shows,
            settings_of((run.folder.name.rpartition("-seed")[0], run.folder) for run in runs),
            self.seed,
            self.quick,
            command_line(name, **arguments, **self.changes),
            data_of(run.folder for run in runs),
            [run.folder for run in runs],
        )

    def train(self, runs: Sequence[Run]) -> None:
        """Train those that are not finished, each from where it was stopped; a failure is reported after the others."""
        for folder, why in train_all(list({run.folder: run for run in runs}.values()), show=self.show).items():
            raise JumbotError(f"{folder}: {why}")

    def domain(self, name: str, split: str) -> Domain:
        """One part of the digits."""
        found = load(name, split, self.root)
        return found.subset(range(min(_QUICK_SAMPLES, len(found)))) if self.quick else found

    def _pair(self, task: str) -> Pair:
        if task not in self._pairs:
            if self.item == "digits":
                source, target, _, _ = DIGITS[task]
                parts = ((source, "train"), (target, "train"), (target, "test"))
                self._pairs[task] = Pair(task, *(self.domain(name, split) for name, split in parts))
            else:
                self._pairs[task] = Pair(task, *(self._domains[name] for name in task.split("-")))
        return self._pairs[task]

    def _published(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the paper's figures, except those that are given."""
        return {o: v for o, v in published(self.item, read_variant(name).method).items() if o not in asked}

    def _inputs(self, task: str) -> dict[str, Any]:
        return dict(zip(("size", "channels"), DIGITS[task][2:], strict=True)) if self.item == "digits" else {}

    @cached_property
    def _pairs(self) -> dict[str, Pair]:
        """Read once."""
        return {}

    @cached_property
    def _domains(self) -> dict[str, Domain]:
        name = {"visda": "visda-2017"}.get(self.item, self.item.removesuffix("-partial"))
        place = data_root(self.root)
        if not place.exists():
            raise ArgumentError(f"data: {self.item} is not in {place}; name its folder with --data or in JUMBOT_DATA.")
        return load_benchmark(name, place)


def only(tasks: Sequence[str]) -> Sequence[str]:
    """The one task of a figure that shows one."""
    if len(tasks) != 1:
        raise ArgumentError(f"tasks: got {', '.join(tasks) or 'none'}; the figure shows one task.")
    return tasks


def _recorded(folder: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """How an existing run was evaluated, unless something else is given: it is the same run."""
    if not (folder / CONFIG).exists():
        return {}
    training = to_builtins(read_config(folder).training)
    return {name: training[name] for name in _RECORDED - {"seed", *asked} if name in training}


def run_name(method: str, recipe: str, changes: Mapping[str, Any]) -> str:
    """A name for a method and how its settings differ from those of the paper.

    >>> run_name("jumbot", "digits", {"reference": "ones", "tau": 1.0, "epsilon": 0.5, "epochs": 20})
    'jumbot-ones-epsilon0.5-epochs20'
    """
    usual = published(recipe, method)
    config, plain = (make_config(None, method, recipe, {**usual, **given}) for given in (changes, {}))
    words = [method]
    if reference := getattr(config.options, "reference", None):
        words.append(reference)
    for part in ("options", "training", "network", "inputs"):
        point = asdict(getattr(plain, part))
        for name, value in asdict(getattr(config, part)).items():
            if value != point[name] and name not in _RECORDED | {"reference", "partial"}:
                words.append(name + (f"{value:g}" if isinstance(value, float) else Path(str(value)).name))
    return "-".join(words)


def command_line(item: str, **given: Any) -> str:
    """The command that does the same.

    >>> command_line("digits", tasks=["U-M"], seed=1, tau=0.5, quick=True, show=False)
    'jumbot reproduce digits --tasks U-M --seed 1 --tau 0.5 --quick'
    """
    words = ["jumbot", "reproduce", item]
    for name, value in given.items():
        if name in _NOT_SHOWN or value is None or value is False or value == ():
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words += map(str, value) if isinstance(value, list | tuple) else [str(value)]
    return shlex.join(words)
