"""Runs put together as they are compared: one group is one method with one rule, over its seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jumbot.report.records import RunRecord
from jumbot.report.style import method_colours


@dataclass(frozen=True)
class Group:
    """The runs of one method on one task that differ in their seed alone."""

    label: str
    colour: str
    runs: Sequence[RunRecord]

    @property
    def first(self) -> RunRecord:
        return self.runs[0]

    @property
    def oracle(self) -> bool:
        return any(run.oracle for run in self.runs)


def label_runs(runs: Sequence[RunRecord]) -> list[str]:
    """A name for each run: its method, the options in which runs of that method differ, its rule where rules differ.

    A model that target labels chose has ORACLE in its name, always.
    """
    rules = {run.rule for run in runs}
    labels = []
    for run in runs:
        alike = [other.options for other in runs if other.method == run.method]
        varying = [
            key
            for key in dict.fromkeys(key for options in alike for key in options)
            if len({json.dumps(options.get(key), sort_keys=True, default=str) for options in alike}) > 1
        ]
        parts = [f"{key}={_short(run.options.get(key))}" for key in varying]
        if run.oracle:
            parts.append("ORACLE")
        elif len(rules) > 1:
            parts.append(run.rule)
        labels.append(f"{run.method} ({', '.join(parts)})" if parts else run.method)
    return labels


def group_runs(runs: Sequence[RunRecord]) -> dict[str, list[Group]]:
    """`{task: groups}`, tasks and groups in the order in which the runs came; a label has one colour in all tasks."""
    labels = label_runs(runs)
    colours = method_colours(labels)
    tasks: dict[str, dict[str, list[RunRecord]]] = {}
    for run, label in zip(runs, labels, strict=True):
        tasks.setdefault(run.task, {}).setdefault(label, []).append(run)
    return {
        task: [Group(label, colours[label], tuple(found)) for label, found in groups.items()]
        for task, groups in tasks.items()
    }


def accuracies(tasks: Mapping[str, list[Group]], key: str = "accuracy") -> dict[str, dict[str, list[float]]]:
    """`{label: {task: one value per seed}}` of the runs that have the figure, for `jumbot.report.comparison`."""
    found: dict[str, dict[str, list[float]]] = {}
    for task, groups in tasks.items():
        for group in groups:
            values = [value for run in group.runs if (value := getattr(run, key)) is not None]
            if values:
                found.setdefault(group.label, {})[task] = values
    return found


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
