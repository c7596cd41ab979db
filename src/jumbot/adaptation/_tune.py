"""`jumbot.tune`: candidates trained and judged without target labels, and the best of them."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import jumbot
from jumbot._base.files import write_text
from jumbot._base.options import Count, Positive, Seed, Text, check
from jumbot._base.pages import drawn
from jumbot._base.progress import progress
from jumbot._base.schema import FORMAT, convert, plain, read, write
from jumbot._settings.places import BEST, TUNING, check_tuning_place, writing
from jumbot._settings.reading import TaskName, make_reading
from jumbot._settings.training import Inputs
from jumbot.adaptation._candidates import Candidates, candidates, check_shared
from jumbot.adaptation._config import make_config
from jumbot.adaptation._grid import Pair
from jumbot.adaptation._model import Model, load
from jumbot.adaptation._runs.folder import DECISION
from jumbot.adaptation._runs.searches_json import Decision, Tuning
from jumbot.adaptation._search import Search
from jumbot.adaptation._verdict import verdict
from jumbot.data._content import domain_hash
from jumbot.data._domain import Domain
from jumbot.data._preflight import Encoding, Given, telling_every_problem
from jumbot.data._sources import check_used, read_domains, read_labelled
from jumbot.errors import ArgumentError, JumbotError

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Tuned:
    """What `jumbot.tune` returns."""

    model: Model
    """The picked model, of a whole run with predictions and report."""
    table: pandas.DataFrame
    """A row per candidate, the picked one first, with its evidence and the folder of its run."""
    why: tuple[str, ...]
    """What was decided and why, in sentences."""
    out: Path
    """The folder of it all: `jumbot.load` takes it too."""

    def __str__(self) -> str:
        return "\n".join(self.why)


def tune(
    source: Any,
    target: Any,
    *,
    out: str | Path | None = None,
    minutes: float | None = None,
    runs: int | None = None,
    jobs: int | None = None,
    seed: int = 0,
    recipe: str | None = None,
    task: TaskName | None = None,
    labelled_target: Any = None,
    evaluate_on: Any = None,
    stop_early: bool = True,
    label: str | Sequence[str] | None = None,
    id: str | None = None,
    drop: str | Sequence[str] = (),
    domain: str | None = None,
    domain_column: str | None = None,
    kind: str | None = None,
    corrupt: str = "refuse",
    root: str | Path | None = None,
    show: bool = False,
    command: str | None = None,
    **options: Any,
) -> Tuned:
    """Try candidates on the same data and pick one by evidence that needs no target labels.

    The candidates are source-only, DeepJDOT, MCC, and JUMBOT with the general and the partial settings at five values
    of tau.  Evidence is `modularity + agreement`: predictions respect the neighbourhoods of the target beyond what
    class sizes alone give, and the other candidates share them.  The recipe's JUMBOT is kept, or source-only where that
    has more evidence, unless another candidate has more and a modularity larger by two standard errors.  So source-only
    can win: then nothing is gained by adaptation.

    Numbers (`task="regression"`) are predicted by source-only, DeepJDOT, DANN and JUMBOT at five values of tau, and the
    evidence is `agreement - gap`, which assumes that the numbers of both domains are spread alike.  Where source-only
    predicts other numbers than the source's, nobody can tell without labels whether adaptation helps: source-only is
    picked then, and `why` says so.

    `source`, `target`, `labelled_target`, `evaluate_on`, `recipe` and the options of reading are those of
    `jumbot.adapt`, and so are `options`: of training, network and inputs, the same for every candidate. Labels of the
    target, where there are any, give a column of the table and are used for nothing else.

    Candidates are trained `jobs` at a time (by default one per core) in folders below `out`.  Called again with the
    same data and settings, it goes on where it was stopped.  Every candidate is trained first for a third of the steps,
    and the better half goes on; `stop_early=False` trains all of them whole.  `runs` is the most candidates, and after
    `minutes` no new one is started; source-only and the recipe's JUMBOT are always trained.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 60)
    >>> X = rng.normal(size=(60, 3)) + 4 * y[:, None]
    >>> best = tune((X, y), X + 0.5, runs=3, jobs=1, steps=20)
    >>> len(best.table), float((best.model.predict(X + 0.5) == y).mean()) > 0.9
    (3, True)
    """
    if target is None:
        raise ArgumentError("target: no target data; give the unlabelled data that the classifier is meant for.")
    minutes = check("minutes", minutes, Positive | None)
    runs = check("runs", runs, Candidates | None)
    jobs = check("jobs", _cores() if jobs is None else jobs, Count)
    seed = check("seed", seed, Seed)
    for name, flag in {"stop_early": stop_early, "show": show}.items():
        check(name, flag, bool)
    out, command = check("out", out, Path | None), check("command", command, Text | None)
    if isinstance(options.get("backbone"), torch.nn.Module):
        raise ArgumentError(
            "backbone: got a module, which every candidate would train in turn; give the name of a backbone, or "
            "tune on the rows that your module gives."
        )
    check_shared(recipe, options, task)
    temporary = Path(tempfile.mkdtemp(prefix="jumbot-")) if out is None else None
    folder = temporary / "tune" if temporary is not None else Path(str(out))
    held = ExitStack()
    try:
        _check_folder(folder)
        held.enter_context(writing(folder))
        reading = make_reading(
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
        own = {name: options[name] for name in ("columns", "dates", "text") if name in options}
        encoding = Encoding.of(Inputs(**own))
        held.enter_context(
            telling_every_problem(Given(source, target, reading, encoding, evaluate_on, labelled_target))
        )
        domains = read_domains(source, target, evaluate_on, reading)
        few = None if labelled_target is None else read_labelled(labelled_target, domains[0], reading)
        check_used(reading, (source, target, evaluate_on, labelled_target), (*domains, few))
        config = make_config(domains[0], "jumbot", recipe, {**options, "seed": seed})
        search = Search(
            folder,
            Pair("tune", *domains, few),
            *_as_the_network_takes_it(domains, config),
            candidates(config.recipe, _task_of(domains[0]))[:runs],
            config,
            options,
            seed,
            jobs,
            show,
            command,
        )
        record = _begin(search, options)
        weighed = search.weigh_all(minutes, stop_early)
        if not weighed:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in search.failed.items())
            raise JumbotError(f"{folder}: no candidate could be trained ({reasons}).")
        record |= verdict(search, weighed) | {"minutes": minutes, "runs": runs, "jobs": jobs, "stop_early": stop_early}
        with progress(None, "reports", bar=show, slow=True):
            found = _finish(search, record)
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        held.close()
    if temporary is not None:
        weakref.finalize(found.model, shutil.rmtree, temporary, ignore_errors=True)
    return found


def _check_folder(folder: Path) -> None:
    check_tuning_place(folder)
    if (folder / TUNING).exists():
        read(folder / TUNING, Tuning)


def _as_the_network_takes_it(read: tuple[Domain, Domain, Domain | None], config: Any) -> tuple[Domain, Domain]:
    """Source and target; features of a frozen backbone are extracted here, once for all candidates."""
    from jumbot.adaptation._domains import Domains

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        found = Domains(*read, config, None)
        return found.source, found.target.unlabelled()


def _task_of(source: Domain) -> TaskName:
    return "classification" if source.values is None else "regression"


def _begin(search: Search, options: Mapping[str, Any]) -> dict[str, Any]:
    """What is known before the first run; a folder with other data or settings is refused."""
    pair, file = search.pair, search.out / TUNING
    same = {
        "source": _data(pair.source),
        "target": _data(pair.target),
        "labelled_target": None if pair.labelled_target is None else _data(pair.labelled_target),
        "recipe": search.config.recipe,
        "seed": search.seed,
        "options": json.loads(json.dumps(dict(options), default=str)),
    }
    if file.exists():
        old = plain(read(file, Tuning))
        for name, value in same.items():
            if old[name] != value:
                raise ArgumentError(
                    f"out: {search.out} was begun with another {name} ({old[name]}, now {value}); tune with the "
                    "same, or give another name."
                )
    record = {
        "format": FORMAT,
        "jumbot": jumbot.__version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": search.command,
        **same,
    }
    if not file.exists():
        write(file, convert(record, Tuning, file))
    return record


def _data(domain: Domain) -> dict[str, Any]:
    return {"name": domain.name, "n": len(domain), "hash": domain_hash(domain)}


def _finish(search: Search, record: dict[str, Any]) -> Tuned:
    """Write the record and the pages, and load the picked model."""
    import pandas

    from jumbot.report._tuning import write_tuning

    out = search.out
    folder = record["candidates"][0]["folder"]
    for run in out.glob(f"*/{DECISION}"):
        run.unlink()
    write(out / folder / DECISION, Decision(tuple(record["why"])))
    write(out / TUNING, convert(record, Tuning, out / TUNING))
    write_text(out / BEST, folder + "\n")
    for text in record["why"]:
        if text.startswith("Warning: "):
            warnings.warn(f"{record['picked']}: {text.removeprefix('Warning: ')}", stacklevel=3)
    drawn(f"{out}: the page of all candidates", lambda: write_tuning(record, out))
    model = load(out)
    drawn(f"{model.run}: the report", model.report)
    return Tuned(model, pandas.DataFrame(record["candidates"]), tuple(record["why"]), out)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
