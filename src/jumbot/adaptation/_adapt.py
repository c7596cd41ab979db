"""`jumbot.adapt`: two data sets in, a classifier for the second out."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import nn

from jumbot._base.files import drawn, time_for_a_page
from jumbot._base.progress import log, progress
from jumbot._base.schema import FORMAT, to_builtins
from jumbot._settings.keywords import AdaptKeywords
from jumbot._settings.places import MODEL, first_process, writing
from jumbot._settings.reading import Reading, TaskName, take_reading
from jumbot._shift.found import SHIFT, Few, compare_few, few_of
from jumbot.adaptation._asked import Asked, Place, Wanted, check_run, complete, former_name, take_backbone
from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._domains import Domains
from jumbot.adaptation._evaluation.decision import Harm, warn_of_harm
from jumbot.adaptation._finish import Ended, finish
from jumbot.adaptation._judging import Judged, how_judged, judge_before, maker, with_held_out
from jumbot.adaptation._model import Model, load
from jumbot.adaptation._networks.build import NetworkSpec
from jumbot.adaptation._runs.config_json import Config, DataFile, TaskFile
from jumbot.adaptation._runs.folder import RunFolder
from jumbot.adaptation._runs.provenance import describe_data, find_start, request, stamp
from jumbot.adaptation._training.accelerator import decided_by_first, give_back_memory
from jumbot.adaptation._training.loop import Trainer
from jumbot.adaptation._training.parts import make_parts
from jumbot.adaptation._unknown import is_marked, mark_unknown, write_marks
from jumbot.data._pair import collecting_problems
from jumbot.data._remarks import noting
from jumbot.data._sources import Given, ReadData, check_used, read_data
from jumbot.errors import ArgumentError
from jumbot.methods import SOURCE_ONLY

_FOLDS, _TRAINED, _BASELINE = 0.5, 0.8, 0.9
"""Shares of a time budget: the ends of the folds, of training, and of the models trained for comparison."""
NO_REPORT = "the time budget left no time for a report; model.report() writes one"


def adapt(
    source: Any = None,
    target: Any = None,
    *,
    method: str | None = None,
    backbone: str | nn.Module | None = None,
    recipe: str | None = None,
    task: TaskName | None = None,
    reading: Reading | Mapping[str, Any] | None = None,
    labelled_target: Any = None,
    evaluate_on: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    start_from: str | Path | None = None,
    config: str | Path | None = None,
    judge: bool = True,
    minutes: float | None = None,
    unknown: bool = False,
    show: bool = False,
    **options: Unpack[AdaptKeywords],
) -> Model:
    """Train a classifier on labelled `source` data and adapt it to `target`, whose labels training never sees.

    Without a `method`, a classifier of the source alone and JUMBOT are both trained and compared, without labels of
    the target, and the better one is returned: `model.decision` says which and why.

    Parameters
    ----------
    source : path, array, frame, pair (X, y), Dataset, Domain, or list of these
        The labelled data: a folder of images (`class/name.jpg`), a table (`.csv`, `.parquet`, `.xlsx`, `.npz`), a
        frame, a pair (X, y) of arrays, or a torch Dataset; see `jumbot.data.as_domain`.  A list holds several sources.
        Minibatches have as many samples of each, and JUMBOT lowers the weight of a source that does not fit the target.
    target : path, array, frame, Dataset or Domain
        The data to predict.  Its labels, where it has any, are used for evaluation only.
    method : str, optional
        "jumbot", "deepjdot", "source-only", or another name in `jumbot.methods.METHODS`.  A named method is always
        kept.  By default, source-only and JUMBOT are compared and source-only is kept unless JUMBOT is better; a
        `recipe`, a `config` or an option of JUMBOT such as `tau` selects JUMBOT.
    backbone : str or torch.nn.Module, optional
        The name of a network ("resnet50", "timm:NAME", ...) or your own module, which maps a batch to `(b, d)`
        features.  By default it follows the data.
    recipe : str, optional
        The name of a set of defaults for one kind of data, such as "table" or "photographs".  By default it follows the
        data.  `options` override it.
    task : {"classification", "regression"}, optional
        Whether labels are classes, or numbers to predict, one or several per sample.  By default they are classes,
        unless they have fractions.
    reading : jumbot.data.Reading or dict, optional
        How the data are read: the columns of labels (`label`), of row names (`id`) and of domains (`domain_column`),
        columns to leave out (`drop`), the domain of the source to use (`domain`; "all" makes each a separate source),
        what arrays hold (`kind`: "signal" or "raw"), what to do with damaged image files (`corrupt`: "refuse" or
        "skip"), and the folder of the digits (`root`).  Each of these is also accepted as a keyword: `label="sold"`.
    labelled_target : pair (X, y) or any labelled data, optional
        Target samples whose labels are known.  They are trained on, and evaluation leaves them out.
    evaluate_on : pair (X, y) or any labelled data, optional
        Another part of the target, with labels, for evaluation only.
    out : path, optional
        The folder of the run: configuration, metrics, checkpoints, model, predictions and a report.  By default, a
        temporary folder that is removed with the model.
    resume : bool, default False
        Continue the run that was stopped in `out`.  Without data, the data and settings of that run are used.
    start_from : path, optional
        The folder of a run whose steps on the source alone are the same as those of this run.  They are copied instead
        of repeated, and the result is the same.
    config : path, optional
        The `config.json` of a run.  Its settings are used where none are given here, and its data where none are given.
    judge : bool, default True
        Hold out a part of the source to choose the method and to estimate the accuracy.  False trains once, on all of
        the source, and estimates no accuracy.
    minutes : float, optional
        A time budget for this call.  Training stops early enough to write the figures and files within it.  If time is
        short, the report and the reference models are left out first, then judging, so that source-only is returned;
        the report says so.  A budget that ends before training can begin raises an error.
    unknown : bool, default False
        Mark target samples of classes that the source lacks, in the columns `unknown` and `unknown_score` of
        `predictions.csv`: by how many classes cannot be excluded and how far the source is, at a threshold that 5 % of
        held-out source samples exceed.  It needs `out` and classes, and changes no prediction.
    show : bool, default False
        Draw a progress bar.
    **options
        Changes to the defaults: of the method (`tau`, `epsilon`, `eta1`, ...), of training (`steps`, `learning_rate`,
        `select`, `seed`, ...), of the network (`features`, `freeze`, ...), of the inputs (`size`, `standardise`,
        `columns`, ...), and of `reading`.  `jumbot adapt --help` lists all of them.  `report=False` writes no report,
        and `command` is a text to record as the origin of the run.

    Returns
    -------
    jumbot.Model
        The trained model, which predicts, evaluates, explains, saves and exports itself.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is invalid.  Everything that does not depend on the data is checked before they are read.
    jumbot.NotFiniteError
        If the loss becomes NaN or infinite during training.

    Warns
    -----
    jumbot.NegativeTransferWarning
        If a named method has probably made the predictions worse than those of source-only.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 100)
    >>> X = rng.normal(size=(100, 3)) + 4 * y[:, None]
    >>> model = adapt((X, y), X + 0.5, steps=40, seed=0)
    >>> float((model.predict(X + 0.5) == y).mean()) > 0.9
    True
    """
    changes: dict[str, Any] = dict(options)
    evaluate_on = former_name(changes.pop("labelled", None), evaluate_on)
    run = check_run(out, resume, start_from, judge, minutes, unknown, show, changes)
    how = take_reading(reading, changes, task)
    changes, module = take_backbone(backbone, changes, run)
    given = Given(source, target, evaluate_on, labelled_target)
    asked = complete(given, Wanted(method, recipe, changes, how, module), run, config)
    with _held(asked) as noted:
        model = _train_and_report(asked, _prepare(asked, noted))
    warn_of_harm(_harm(model))
    return model


def _harm(model: Model) -> Harm | None:
    """The evidence that the method did harm; none if labels of the target show that it helped, as in the report."""
    decision = model.decision
    if decision is None or decision.harm is None or model.method["name"] == SOURCE_ONLY:
        return None
    from jumbot.report._presence import helped

    return decision.harm if decision.harm.likely and not helped(model._record) else None


@contextmanager
def _held(asked: Asked) -> Iterator[list[str]]:
    """Lock the folder of the run, and yield the list that collects remarks on the data."""
    out = asked.run.out
    with ExitStack() as held:
        if out is not None and first_process():
            RunFolder(out).check(asked.run.resume)
            held.enter_context(writing(out))
        noted = held.enter_context(noting())
        held.enter_context(collecting_problems(asked.given, asked.reading, asked.encoding))
        yield noted


@dataclass(frozen=True)
class _Ready:
    """What is trained, and on which data; tables and arrays as read are freed before training."""

    config: RunConfig
    domains: Domains
    judged: Judged
    data: dict[str, DataFile] | None
    """Names, sizes and hashes, for a run that is kept."""
    few: Few
    """Rows to compare the domains by, for the report."""


def _prepare(asked: Asked, noted: list[str]) -> _Ready:
    """Read the data, and judge the method if that is possible before it is trained on all of them."""
    read = read_data(asked.given, asked.reading)
    check_used(asked.reading, asked.given, read)
    give_back_memory()
    config, domains, judged = _judged(asked, read, noted)
    recorded = asked.run.out is not None or asked.run.start_from is not None
    data = describe_data(read) if recorded else None
    return _Ready(config, domains, judged, data, few_of(read.source, read.target, config.training.seed))


def _judged(asked: Asked, read: ReadData, noted: list[str]) -> tuple[RunConfig, Domains, Judged]:
    run, settings = asked.run, asked.settings
    again = maker(read.source, settings.recipe, settings.options)
    made = again(asked.method)
    mode, why_not = how_judged(read.source, made, settings.recipe, run.judge, settings.module is not None)
    made = with_held_out(made) if mode == "held-out" else made
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(made.training.seed)
        domains = Domains(read, made, settings.module)
    domains.remarks = tuple(noted)
    if mode not in ("folds", "few") or _is_finished(run):
        return made, domains, Judged(asked.automatic, why_not=why_not)
    with progress(None, "folds of the source", bar=run.show, slow=True):
        judged, made = judge_before(
            domains.training_data,
            again("jumbot") if asked.automatic else made,
            again,
            automatic=asked.automatic,
            until=run.until(_FOLDS),
            why_not=why_not,
            given=settings.options,
        )
    return made, domains, judged


def _is_finished(run: Place) -> bool:
    return run.out is not None and (run.out / MODEL).exists()


def _train_and_report(asked: Asked, ready: _Ready) -> Model:
    """The trained model, with its report if it has a folder."""
    run = asked.run
    if time.monotonic() >= run.until(_TRAINED) and not _is_finished(run):
        raise ArgumentError(
            f"minutes: {run.seconds / 60:.2g} minutes ({run.seconds:.3g} s) are too few: after "
            f"{time.monotonic() - run.begun:.3g} s the data were read, and no time was left to train. Give more.",
            argument="minutes",
        )
    give_back_memory()
    origin = dict[str, Any](automatic=asked.automatic)
    if ready.data is not None:
        origin["data"] = ready.data
    if run.out is None:
        return _train_nowhere(asked, ready, origin)
    origin["request"] = request(asked.given, asked.reading)
    model = _train(asked, ready, origin, RunFolder(run.out))
    predictions = run.out / "predictions.csv"
    if run.unknown and first_process() and not is_marked(predictions):
        write_marks(predictions, mark_unknown(model, ready.domains, ready.config.training.seed))
    page = run.out / "report.html"
    if run.report and first_process() and not page.exists():
        if not time_for_a_page(run.begun, run.seconds):
            log.warning("%s: %s", run.out, NO_REPORT)
            return model
        from jumbot.report._adaptation import write_report

        give_back_memory()
        _compare(ready.few, ready.config, run.out)
        with progress(None, "report", bar=run.show, slow=True):
            drawn(f"{run.out}: the report", lambda: write_report([model._record], page))
    return model


def _compare(few: Few, config: RunConfig, out: Path) -> None:
    """Whether the target has shifted, for the first section of the report; none if the data cannot be compared."""
    with suppress(ArgumentError):
        compare_few(few, config.inputs.columns).save(out / SHIFT)


def _train_nowhere(asked: Asked, ready: _Ready, origin: Mapping[str, Any]) -> Model:
    """In a folder that is removed with the model."""
    temporary = Path(tempfile.mkdtemp(prefix="jumbot-"))
    try:
        model = _train(asked, ready, origin, RunFolder(temporary / "run"))
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    weakref.finalize(model, shutil.rmtree, temporary, ignore_errors=True)
    return model


def _train(asked: Asked, ready: _Ready, origin: Mapping[str, Any], folder: RunFolder) -> Model:
    """Train on prepared domains, in the folder of a run; a finished run is loaded."""
    run, config, domains = asked.run, ready.config, ready.domains
    data = domains.training_data
    network, spec, method = make_parts(config, data, domains.network_input)
    described, begin = _describe(config, domains, spec, {**stamp(run.command), **origin}), None
    if run.start_from is not None:
        begin = find_start(run.start_from, described)
        described = replace(described, start_from=_relative(run.start_from, folder.path))
    trainer = Trainer(
        data,
        network,
        method,
        config.training,
        watch=domains.watch,
        run=folder,
        show=run.show,
        until=run.until(_TRAINED),
    )
    if decided_by_first(trainer.accelerator, lambda: folder.open(described, run.resume)):
        return load(folder.path, asked.settings.module)
    trained = trainer.fit(run.resume, begin)
    model = Model(
        network.eval(),
        domains.task,
        domains.input,
        to_builtins(spec),
        described.method,
        run=folder.path,
        extractor=domains.extractor,
        crops=domains.crops,
    )
    if trainer.accelerator.is_main_process:
        # a baseline is trained by one process, and only for a report
        baseline = run.report and run.out is not None and trainer.accelerator.num_processes == 1
        ended = Ended(model, trained, domains, config, folder, ready.judged, baseline, run.until(_BASELINE))
        model = finish(ended, run.show)
    model.network.cpu()  # after the figures, which are computed on the device of the training
    model.network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # as it is loaded, to the last bit
    return model


def _relative(folder: Path, run: Path) -> str:
    """`folder` as seen from a run, so that both may be moved together."""
    try:
        return os.path.relpath(folder, run)
    except ValueError:  # on another drive
        return str(folder)


def _describe(config: RunConfig, domains: Domains, spec: NetworkSpec, origin: Mapping[str, Any]) -> Config:
    """The record of the new run."""
    return Config(
        format=FORMAT,
        source=DataFile(domains.source.name, len(domains.source)),
        target=DataFile(domains.target.name, len(domains.target)),
        classes=domains.source.classes,
        task=TaskFile.of(domains.task),
        network=spec,
        input=domains.input,
        select=config.training.select,
        seed=config.training.seed,
        **config.parts(),
        **origin,
    )
