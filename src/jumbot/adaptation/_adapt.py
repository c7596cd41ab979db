"""`jumbot.adapt`: two data sets in, a classifier for the second out."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from jumbot._base.options import Positive, Text, check
from jumbot._base.pages import drawn
from jumbot._base.progress import progress
from jumbot._base.schema import FORMAT
from jumbot._settings.places import CONFIG, MODEL, first_process, needed_start, settings_file, writing
from jumbot._settings.reading import Corrupt, TaskName, make_reading
from jumbot._shift.found import SHIFT, compare_domains
from jumbot.adaptation._config import RunConfig, check_changes, make_config
from jumbot.adaptation._domains import Domains
from jumbot.adaptation._evaluation.task import task_to_json
from jumbot.adaptation._finish import Before, finish
from jumbot.adaptation._judging import Judged, how_judged, judge_before, maker, names_a_method, with_held_out
from jumbot.adaptation._model import Model, load
from jumbot.adaptation._networks.build import make_network
from jumbot.adaptation._runs.folder import RunFolder, read_config
from jumbot.adaptation._runs.provenance import OtherStartError, describe_data, find_start, remember, request, stamp
from jumbot.adaptation._training.accelerator import check_able, decided_by_first
from jumbot.adaptation._training.loop import Trainer
from jumbot.adaptation._unknown import mark_unknown, write_marks
from jumbot.data._domain import Domain
from jumbot.data._preflight import Encoding, Given, telling_every_problem
from jumbot.data._remarks import noting
from jumbot.data._sources import check_used, read_domains, read_labelled
from jumbot.errors import ArgumentError
from jumbot.methods import make_method

_FOLDS, _TRAINED, _BESIDE = 0.5, 0.8, 0.9  # of a budget of time: when folds, training and the baseline are over


def adapt(
    source: Any = None,
    target: Any = None,
    *,
    method: str | None = None,
    backbone: str | nn.Module | None = None,
    recipe: str | None = None,
    task: TaskName | None = None,
    labelled_target: Any = None,
    evaluate_on: Any = None,
    label: str | Sequence[str] | None = None,
    id: str | None = None,
    drop: str | Sequence[str] = (),
    domain: str | None = None,
    domain_column: str | None = None,
    kind: str | None = None,
    corrupt: Corrupt = "refuse",
    root: str | Path | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    start_from: str | Path | None = None,
    config: str | Path | None = None,
    show: bool = False,
    report: bool = True,
    command: str | None = None,
    labelled: Any = None,
    judge: bool = True,
    minutes: float | None = None,
    unknown: bool = False,
    **options: Any,
) -> Model:
    """Train a classifier on labelled `source` data and adapt it to `target`, whose labels training never sees.

    `source` and `target` are folders of images, tables (`.csv`, `.parquet`, `.xlsx`, `.npz`), frames, arrays, pairs
    (X, y), or torch Datasets.  Labels of the target, where it has any, and those of `evaluate_on`, another part of
    the target, are for evaluation alone.

    A list is several sources, and so is a table or folder of several domains with `domain="all"`.  Minibatches then
    have as many samples of each, and JUMBOT takes from each what its plan takes: one that does not fit, or whose labels
    are wrong, counts for less and less.

    `labelled_target` is a part of the target with labels, such as a pair (X, y), that are trained on; in the plan of
    JUMBOT and DeepJDOT they are certain.  Evaluation leaves out samples that look the same as one of these.

    `task="regression"` predicts numbers, one or several per sample, in the units of the source's; by default classes
    are, unless the labels have fractions.

    `recipe` names settings that fit a kind of data (by default it follows the data), and `options` change them: those
    of the method (`tau`, `epsilon`, `eta1`, ...), of `Training` (`steps`, `learning_rate`, `select`, `seed`, ...), of
    the network (`features`, `freeze`, ...) and of the inputs (`size`, `standardise`, ...).  `backbone` is a name or a
    module of your own that maps a batch to `(b, d)`.

    Columns of tables are matched by name.  `label` names the column of labels, which the target may lack, `id` that of
    the names of the rows, and `drop` columns to leave out; `columns="shared"` takes those that both tables have.  All
    of it is part of the model, which reads later tables in the same way.  Several numbers to predict are several
    columns of labels.  `domain` takes one domain of a source that holds several, named in the column `domain_column`.
    `kind` says what arrays hold that are neither features nor images: "signal", which is `(n, channels, length)`, or
    "raw", tensors that pass as they are to a `backbone` of your own.  `corrupt` says if broken image files are refused
    or skipped ("skip"), `root` is where the digits are.

    `out` is the folder of the run: configuration, metrics, checkpoints, model, predictions, and with `report` a page.
    `resume` continues a run that was stopped there; alone with `out` it takes data and settings from the folder.
    `start_from` is the folder of a run whose steps on the source alone are the same as this one's: they are taken over,
    with the result that repeating them would have.  `config` is the `config.json` of a run whose settings this one
    shall have, but for those given here, and whose data where none are given.

    Without a `method`, a classifier of the source alone and JUMBOT are both trained, judged by a part of the source
    that they never saw and by the target without its labels, and the better one is handed over: `model.decision` says
    which and why.  Where the evidence is even, that is source-only.  `recipe`, `config` and options of JUMBOT (`tau`)
    name it, and a method that is named is always kept.  `judge=False` trains once, on all of the source, and estimates
    no accuracy.  `minutes` is a budget of time: training ends where it is, so that figures and files come in time.

    `unknown` marks target samples of classes that the source lacks, in the columns `unknown` and `unknown_score` of
    `predictions.csv`: by how many classes cannot be excluded and how far the source is, at a threshold that 5 % of
    held-out source samples exceed.  It needs `out`, classes and `judge`, and changes no prediction.

    `show` draws a progress bar.  Whatever can be refused is refused before any data are read.  (`labelled` is the
    former name of `evaluate_on`.)

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 100)
    >>> X = rng.normal(size=(100, 3)) + 4 * y[:, None]
    >>> model = adapt((X, y), X + 0.5, steps=40, seed=0)
    >>> float((model.predict(X + 0.5) == y).mean()) > 0.9
    True
    """
    if labelled is not None:
        if evaluate_on is not None:
            raise ArgumentError("labelled: the former name of evaluate_on, and both were given; give evaluate_on.")
        warnings.warn("labelled= is called evaluate_on= now.", DeprecationWarning, stacklevel=2)
        evaluate_on = labelled
    out, config = check("out", out, Path | None), check("config", config, Path | None)
    begun = check("start_from", start_from, Path | None)
    flags = {"resume": resume, "show": show, "report": report, "judge": judge, "unknown": unknown}
    for name, flag in flags.items():
        check(name, flag, bool)
    check("command", command, Text | None)
    minutes, begun_at = check("minutes", minutes, Positive | None), time.monotonic()
    budget = math.inf if minutes is None else 60 * minutes
    if unknown and (out is None or not judge or task == "regression"):
        raise ArgumentError("unknown needs out, classes and judge=True: it marks the predictions.csv of a run.")
    if resume and out is None:
        raise ArgumentError("resume: got True without out, the folder of the run to continue.")
    begun = needed_start(begun, None if out is None else Path(out), resume)
    if begun is not None:
        read_config(begun)
    module = backbone if isinstance(backbone, nn.Module) else None
    if module is not None and begun is not None:
        raise OtherStartError(
            "start_from: got a backbone of your own, and no run records the weights that it began with; leave out "
            "one of both."
        )
    if module is not None:  # a recipe's own backbone gives way to the user's
        options = {"backbone": None, "weights": None, "freeze": False, **options}
    elif backbone is not None:
        if not isinstance(backbone, str):
            kind = backbone.__name__ if isinstance(backbone, type) else type(backbone).__name__
            raise ArgumentError(f"backbone: got {kind}; give a name, or a torch.nn.Module that is made already.")
        options["backbone"] = backbone
    how: dict[str, Any] = dict(
        label=label,
        id=id,
        drop=drop,
        domain=domain,
        domain_column=domain_column,
        kind=kind,
        task=task,
        corrupt=corrupt,
        root=root,
    )
    named = names_a_method(method, recipe, config, options)
    automatic = judge and not named
    if resume and out is not None and (Path(out) / CONFIG).exists():
        begun_with = read_config(Path(out))
        automatic = begun_with["automatic"]
        method = begun_with["method"]["name"] if automatic and method is None else method
    config = settings_file(config, out, resume, data=source is not None or target is not None)
    if config is not None:
        asked = remember(config, method, recipe, options)
        method, recipe, options = asked.method, asked.recipe, asked.options
        if source is None and target is None:
            more = {"evaluate_on": evaluate_on, "labelled_target": labelled_target}
            lost = [name for name in asked.lost if more.get(name) is None]
            if asked.source is None or asked.target is None or lost:
                which = lost[0] if lost else "source"
                raise ArgumentError(
                    f"{which}: {config} does not say where the data are: they came from memory; give them again."
                )
            source, target, how = asked.source, asked.target, asked.reading
            evaluate_on = asked.evaluate_on if evaluate_on is None else evaluate_on
            labelled_target = asked.labelled_target if labelled_target is None else labelled_target
    if target is None:
        raise ArgumentError("target: no target data; give the unlabelled data that the classifier is meant for.")
    method = "jumbot" if method is None else method
    asked_for = check_changes(method, recipe, options, how.get("task"))
    check_able(asked_for.training, reports=report and out is not None)
    with ExitStack() as held:
        if out is not None and first_process():
            RunFolder(out).check(resume)
            held.enter_context(writing(out))
        noted = held.enter_context(noting())
        reading = make_reading(**how)
        encoding = Encoding.of(asked_for.inputs)
        held.enter_context(
            telling_every_problem(Given(source, target, reading, encoding, evaluate_on, labelled_target))
        )
        raw_source, raw_target, raw_evaluated = read_domains(source, target, evaluate_on, reading)
        raw_labelled = None if labelled_target is None else read_labelled(labelled_target, raw_source, reading)
        given = source, target, evaluate_on, labelled_target
        check_used(reading, given, (raw_source, raw_target, raw_evaluated, raw_labelled))
        made = make_config(raw_source, method, recipe, options)
        mode, why_not = how_judged(raw_source, made, recipe, judge)
        made = with_held_out(made) if mode == "held-out" else made
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(made.training.seed)
            domains = Domains(raw_source, raw_target, raw_evaluated, made, module, raw_labelled)
        domains.remarks = tuple(noted)
        judged = Judged(automatic, why_not=why_not)
        if mode in ("folds", "few") and not (out is not None and (Path(out) / MODEL).exists()):
            again = maker(raw_source, recipe, options)
            with progress(None, "folds of the source", bar=show, slow=True):
                judged, made = judge_before(
                    domains,
                    again("jumbot") if automatic else made,
                    again,
                    automatic=automatic,
                    until=begun_at + _FOLDS * budget,
                    why_not=why_not,
                )
        origin: dict[str, Any] = {"automatic": automatic}
        if out is not None or begun is not None:
            origin["data"] = describe_data(
                source=raw_source, target=raw_target, evaluate_on=raw_evaluated, labelled_target=raw_labelled
            )
        if out is None:
            return _train_nowhere(made, domains, show, command, origin, begun, judged, begun_at + _TRAINED * budget)
        origin["request"] = request(source, target, evaluate_on, labelled_target, reading)
        model = train(
            made,
            domains,
            RunFolder(out),
            resume=resume,
            show=show,
            command=command,
            origin=origin,
            module=module,
            baseline=report,
            start_from=begun,
            judged=judged,
            until=begun_at + _TRAINED * budget,
            beside_until=begun_at + _BESIDE * budget,
        )
        if unknown and first_process():
            marks = mark_unknown(model, domains, judged, made.training.seed)
            write_marks(Path(out) / "predictions.csv", marks)
        if report and first_process() and not (Path(out) / "report.html").exists():
            _compare(raw_source, raw_target, made, Path(out))
            with progress(None, "report", bar=show, slow=True):
                drawn(f"{out}: the report", model.report)
        return model


def _compare(source: Domain, target: Domain, config: RunConfig, out: Path) -> None:
    """Whether the target has shifted, for the first section of the report; none where data cannot be compared."""
    with contextlib.suppress(ArgumentError):
        found = compare_domains(source, target, columns=config.inputs.columns, seed=config.training.seed)
        found.save(out / SHIFT)


def _train_nowhere(
    config: RunConfig,
    domains: Domains,
    show: bool,
    command: str | None,
    origin: Mapping[str, Any],
    start_from: Path | None,
    judged: Judged,
    until: float,
) -> Model:
    """In a folder that goes with the model."""
    temporary = Path(tempfile.mkdtemp(prefix="jumbot-"))
    try:
        model = train(
            config,
            domains,
            RunFolder(temporary / "run"),
            show=show,
            command=command,
            origin=origin,
            start_from=start_from,
            judged=judged,
            until=until,
        )
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    weakref.finalize(model, shutil.rmtree, temporary, ignore_errors=True)
    return model


def train(
    config: RunConfig,
    domains: Domains,
    run: RunFolder,
    *,
    resume: bool = False,
    show: bool = False,
    command: str | None = None,
    origin: Mapping[str, Any] | None = None,
    module: nn.Module | None = None,
    baseline: bool = False,
    start_from: Path | None = None,
    judged: Judged | None = None,
    until: float = math.inf,
    beside_until: float = math.inf,
) -> Model:
    """Train on domains that are ready, in the folder of a run; one that is finished there is loaded."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        network, spec = make_network(
            config.network,
            domains.shape,
            domains.task.outputs,
            domains.module,
            domains.kind,
            domains.input.dtype,
            domains.source,
            domains.labelled,
            domains.target,
        )
        method = make_method(
            config.method,
            config.options,
            features=network.features,
            classes=network.classes,
            label_loss=domains.task.label_loss,
        )
    described = describe(config, domains, spec) | stamp(command) | dict(origin or {})
    begin = None if start_from is None else find_start(start_from, described)
    described["start_from"] = None if start_from is None else _relative(start_from, run.path)
    trainer = Trainer(
        domains.source,
        domains.target.unlabelled(),
        network,
        method,
        config.training,
        task=domains.task,
        labelled=domains.labelled,
        watch=domains.watch,
        run=run,
        show=show,
        until=until,
    )
    if decided_by_first(trainer.accelerator, lambda: run.open(described, resume)):
        return load(run.path, module)
    trainer.before_adaptation = Before(run.before, network)
    trained = trainer.fit(resume, begin)
    model = Model(
        network.eval(),
        domains.task,
        domains.input,
        spec,
        described["method"],
        run=run.path,
        extractor=domains.extractor,
        crops=domains.crops,
    )
    if trainer.accelerator.is_main_process:
        alone = trainer.accelerator.num_processes == 1  # a baseline is trained by one process
        model = finish(model, trained, domains, config, run, baseline and alone, show, judged, beside_until)
    model.network.cpu()  # after the figures, which are found where it was trained
    model.network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # as it is loaded, to the last bit
    return model


def _relative(folder: Path, run: Path) -> str:
    """`folder` as seen from a run, so that both may be moved together."""
    try:
        return os.path.relpath(folder, run)
    except ValueError:  # on another drive
        return str(folder)


def describe(config: RunConfig, domains: Domains, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What `config.json` holds of the run itself."""
    return {
        "format": FORMAT,
        "source": {"name": domains.source.name, "n": len(domains.source)},
        "target": {"name": domains.target.name, "n": len(domains.target)},
        "classes": list(domains.source.classes),
        "task": task_to_json(domains.task),
        **config.to_json(),
        "network": dict(spec),
        "input": asdict(domains.input),
        "select": config.training.select,
        "seed": config.training.seed,
    }
