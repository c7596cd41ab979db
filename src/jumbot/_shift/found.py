"""`jumbot.shift`: is there a shift, how large is it, where, and what next."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from jumbot._base.files import write_text
from jumbot._base.options import Count, Positive, Seed, check
from jumbot._base.progress import progress
from jumbot._settings.reading import make_reading
from jumbot._shift.effect import Effect, find_effect
from jumbot._shift.permutations import EXCHANGES, Tested, run_test
from jumbot._shift.pooled import Pool, make_pool
from jumbot._shift.whereabouts import (
    ODD,
    ColumnShift,
    Explained,
    Proportion,
    Sample,
    alone,
    explain,
    find_columns,
    find_copies,
    find_proportions,
    find_samples,
    what_shifted,
)
from jumbot.data._domain import Domain
from jumbot.data._inputs import kind_of
from jumbot.data._other_units import ASKED
from jumbot.data._remarks import noting
from jumbot.data._screening import screen
from jumbot.data._sources import read_domains
from jumbot.errors import ArgumentError, DataWarning, suggest_option

LEVEL = 0.05
"""The largest p-value at which the sets are said to differ."""
SMALL = 0.05
"""Share without a counterpart below which a shift is called small, if the distance grows by less than twice as much."""
_ASKED = 20  # samples that labels are asked for
_FEW = 0.3  # share of unexplained rows up to which they are single samples, and not the whole set
SHIFT = "shift.json"
"""In the folder of a run: whether its target has shifted."""
_FEW_ROWS, _FEW_EXCHANGES = 500, 99  # of the first section of a report on an adaptation
_READING = {"id", "drop", "domain", "domain_column", "corrupt", "root", "kind", "task"}
_Columns = Literal["same", "shared"]


@dataclass(frozen=True)
class Shift:
    """What `jumbot.shift` found.

    Attributes
    ----------
    p_value : float
        The p-value of the permutation test of equal distributions: exact under exchangeability.
    effect : float or None
        The share of current rows without a counterpart in the reference, minus the same share between two halves of the
        reference.
    interval : (float, float) or None
        The 95 % confidence interval of `effect`.
    distance : float or None
        The divergence between minibatches of the two sets, divided by that between two halves of the reference: 1 if
        nothing has shifted, whatever the number of rows.
    samples : tuple of Sample
        Rows of the current set, the least explained first.
    columns : tuple of ColumnShift
        Columns, by increasing p-value.
    proportions : dict or None
        The share of each class in the current set, if the reference has labels.
    where : str or None
        Whether the shift is in the "labels", the "features" or "both", if there is one and the reference has labels.
    next : str
        The recommended next step, in one sentence.
    distance_interval : (float, float) or None
        The 95 % confidence interval of `distance`.
    names, sizes, looked_at : pairs
        The names of the two sets, their numbers of rows, and the numbers of rows that the test used.
    exchanges : int
        The number of permutations.
    views : dict
        The uncorrected p-value of each view of the data that the test combines.
    remarks : tuple of str
        Problems in single columns, such as other units.
    interrupted : bool
        Whether the test was interrupted by Ctrl-C.
    """

    p_value: float
    effect: float | None
    interval: tuple[float, float] | None
    distance: float | None
    distance_interval: tuple[float, float] | None
    samples: tuple[Sample, ...]
    columns: tuple[ColumnShift, ...]
    proportions: Mapping[str, Proportion] | None
    where: str | None
    next: str
    names: tuple[str, str]
    sizes: tuple[int, int]
    looked_at: tuple[int, int]
    exchanges: int
    views: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def shifted(self) -> bool:
        """Whether the p-value is at most .05."""
        return self.p_value <= LEVEL

    def __repr__(self) -> str:
        return f"Shift(p_value={self.p_value:.4g}, effect={_short(self.effect)}, next={self.next!r})"

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return asdict(self)

    def save(self, file: str | Path) -> Path:
        """Write `to_json()` into a file."""
        return write_text(check("file", file, Path), json.dumps(self.to_json(), indent=2) + "\n")

    def report(self, out: str | Path = "shift.html") -> Path:
        """Write the report, a single HTML file.

        Parameters
        ----------
        out : str or Path
            The name of the file, or a folder for `shift.html`.

        Returns
        -------
        Path
            The file.
        """
        from jumbot.report._shift_page import write_shift

        return write_shift(self, check("out", out, Path))


def shift(
    reference: Any,
    current: Any,
    *,
    label: str | Sequence[str] | None = None,
    groups: str | Sequence[Any] | None = None,
    blocks: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    columns: str = "same",
    **reading: Any,
) -> Shift:
    """Test whether data have shifted, how far and where, and suggest what to do; nothing is trained.

    The p-value is that of a permutation test on transport distances: the minibatch Sinkhorn divergence with its mass
    term at two scales, its limits for large epsilon on all rows (kernel and energy distances), transport of single
    columns and directions, means, shapes of ranks, and nearest neighbours, aggregated under the same exchanges.  It is
    exact if the rows are exchangeable; for rows in groups or in order of time, pass `groups` or `blocks`.

    Parameters
    ----------
    reference, current : path, array, frame, Dataset or Domain
        The earlier and the current data, in any form that `jumbot.adapt` accepts.  At most 2,000 random rows of each
        are used.
    label : str, optional
        Column of the labels in the reference; the current set may lack it.
    groups : str or pair of arrays, optional
        The column, or the values, of groups that are exchanged as a whole, such as patients.  A group that is in both
        sets is compared with itself.
    blocks : int, optional
        Length of blocks of consecutive rows that are exchanged as a whole, for rows in the order of time.
    minutes : float, optional
        A time budget: the test uses the permutations done by then.
    seed : int, default 0
        Random seed.
    columns : {"same", "shared"}, default "same"
        Whether both tables must have the same columns, or only shared columns are compared.
    **reading
        Further options of `jumbot.data.Reading` (`id`, `drop`, `domain`, `domain_column`, `corrupt`, `root`, `kind`),
        and `task`.

    Returns
    -------
    Shift
        `p_value`, `effect` with its `interval`, `samples`, `columns`, `proportions`, `next`, and `report()`.

    Raises
    ------
    ArgumentError
        If the data cannot be compared; raised before any work.

    Examples
    --------
    >>> import numpy as np, jumbot
    >>> rng = np.random.default_rng(0)
    >>> found = jumbot.shift(rng.normal(size=(100, 3)), rng.normal(size=(100, 3)) + [0, 0, 2])
    >>> found.p_value < 0.01, found.columns[0].name
    (True, '3')
    """
    blocks, minutes = check("blocks", blocks, Count | None), check("minutes", minutes, Positive | None)
    seed = check("seed", seed, Seed)
    columns = check("columns", columns, _Columns)
    if unknown := set(reading) - _READING:
        known = sorted({"label", "groups", "blocks", "minutes", "seed", "columns"} | _READING)
        raise ArgumentError(f"{min(unknown)}: not an option of shift; {suggest_option(min(unknown), known)}")
    rng = np.random.default_rng((seed, 32))
    first, second, _ = read_domains(reference, current, reading=make_reading(label=label, **reading))
    until = np.inf if minutes is None else time.monotonic() + 60 * minutes
    return _find(*_pooled(first, second, groups, blocks, columns, rng), rng, until)


class Few(NamedTuple):
    """A few rows of two domains, to compare the domains by, and the numbers of all rows."""

    domains: tuple[Domain, Domain]
    sizes: tuple[int, int]
    rng: np.random.Generator


def few_of(first: Domain, second: Domain, seed: int = 0) -> Few:
    """The rows that `compare_few` uses, so that the domains themselves can be freed."""
    rng = np.random.default_rng((seed, 32))
    here, there = (one.subset(np.sort(rng.permutation(len(one))[:_FEW_ROWS])) for one in (first, second))
    return Few((here, there), (len(first), len(second)), rng)


def compare_few(few: Few, columns: str = "same") -> Shift:
    """`shift` of domains that are read already, on a few rows and in a second or two."""
    pooled = _pooled(*few.domains, None, None, columns, few.rng)
    found = _find(*pooled, few.rng, np.inf, _FEW_EXCHANGES)
    return replace(found, sizes=few.sizes, samples=found.samples[:_ASKED])


def _pooled(
    first: Domain, second: Domain, groups: Any, blocks: int | None, columns: str, rng: np.random.Generator
) -> tuple[Pool, tuple[str, ...]]:
    """The pool, and remarks on its columns."""
    with noting() as noted, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        pool = make_pool(first, second, groups, blocks, columns, rng)
        if kind_of(first) == "features":
            screen(first, second, filled=False)
    every_row = len(np.unique(pool.units)) == len(pool.rows)
    return pool, (*noted, *(find_copies(pool) if every_row else ()))


def _find(
    pool: Pool, remarks: tuple[str, ...], rng: np.random.Generator, until: float, count: int = EXCHANGES
) -> Shift:
    """Stage by stage; Ctrl-C keeps the stages that are done."""
    effect: Effect | None = None
    samples: tuple[Sample, ...] = ()
    columns: tuple[ColumnShift, ...] = ()
    proportions, where, stopped = None, None, False
    odd: tuple[Sample, ...] = ()
    with progress(count + 1, "shift", least=1, slow=True) as advance:
        tested = run_test(pool, rng, advance, count, until)
        if not tested.interrupted:
            try:
                advance(0, "effect")
                effect = find_effect(pool.rows, pool.current, tested.scale, rng, until)
                advance(0, "samples and columns")
                explained = explain(pool, rng)
                samples = find_samples(pool, explained)
                odd = _odd(pool, explained, samples, tested, rng)
                columns = find_columns(pool, tested, rng)
                proportions = find_proportions(pool, explained, rng)
                where = what_shifted(pool, proportions, tested, rng)
            except KeyboardInterrupt:
                stopped = True
    return Shift(
        p_value=tested.p_value,
        effect=None if effect is None else effect.share,
        interval=None if effect is None else effect.interval,
        distance=None if effect is None else effect.distance,
        distance_interval=None if effect is None else effect.distance_interval,
        samples=samples,
        columns=columns,
        proportions=proportions,
        where=where,
        next=_advice(tested, effect, odd, _units(remarks, pool.columns, tested), where),
        names=pool.names,
        sizes=pool.sizes,
        looked_at=(int((~pool.current).sum()), int(pool.current.sum())),
        exchanges=tested.exchanges,
        views=tested.views,
        remarks=remarks,
        interrupted=tested.interrupted or stopped,
    )


def _odd(
    pool: Pool, explained: Explained, samples: tuple[Sample, ...], tested: Tested, rng: np.random.Generator
) -> tuple[Sample, ...]:
    """The unexplained rows, if they are few and nothing else has shifted."""
    odd = tuple(sample for sample in samples if sample.p_value <= ODD)
    excess = len(odd) / len(samples) - ODD
    few = tested.p_value <= LEVEL and ODD < excess <= _FEW
    return odd if few and alone(pool, explained, rng) else ()


def _units(remarks: Sequence[str], columns: Sequence[str], tested: Tested) -> list[str]:
    """The remarks on units, without those on columns that have not moved by the test."""
    still = {name for name, p in zip(columns, tested.columns, strict=True) if p > LEVEL}
    named = {text: re.search(r"column ('.*?'|\d+) ", text) for text in remarks if ASKED in text}
    return [text for text, found in named.items() if found is None or found[1].strip("'") not in still]


def _advice(
    tested: Tested, effect: Effect | None, odd: tuple[Sample, ...], units: Sequence[str], where: str | None
) -> str:
    """One sentence on what to do."""
    if tested.p_value > LEVEL:
        return "Nothing to do: no shift was found."
    if units:
        return f"Check the units first: {units[0]}"
    if effect is None:
        return "There is a shift; the search for its location was interrupted."
    if odd:
        rows = ", ".join(sample.name for sample in odd[:_ASKED])
        count = min(len(odd), _ASKED)
        return f"Look at the {count} rows that the reference does not explain, and have them labelled: {rows}."
    if where == "labels":
        return "The class proportions have changed, but the classes look as before: adapt with proportions='estimated'."
    if effect.share < SMALL and effect.distance_interval[0] <= 1 + 2 * SMALL:
        return "Nothing to do yet: the shift is real but small; watch the columns that moved."
    return "Adapt: jumbot adapt REFERENCE CURRENT."


def _short(value: float | None) -> str:
    return "None" if value is None else f"{value:.3g}"
