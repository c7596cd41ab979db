"""`jumbot shift REFERENCE CURRENT`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from jumbot._base.options import Positive, Seed, Share
from jumbot._settings.reading import Reading
from jumbot.cli._arguments import Argument
from jumbot.cli._help import Command
from jumbot.cli._parsing import UsageError, parse
from jumbot.cli._run_options import check_places, reading
from jumbot.cli._terminal import say
from jumbot.errors import ArgumentError

if TYPE_CHECKING:
    import jumbot

_SHOWN = 5  # columns and samples that are named on the terminal


@dataclass(frozen=True, kw_only=True)
class Shift(Reading, Command):
    """Test whether data have shifted, how far and where, and suggest what to do. Nothing is trained."""

    examples: ClassVar = (
        ("two tables of last year and of this one", "jumbot shift 2023.csv 2024.csv --label sold"),
        ("fail a pipeline if a tenth of the rows has no counterpart", "jumbot shift a.csv b.csv --fail-above 0.1"),
        ("permute all rows of a patient together", "jumbot shift before.csv after.csv --groups patient"),
    )
    matter: ClassVar = ("label", "groups", "blocks", "fail_above", "out", "json", "minutes", "seed")
    reference: Annotated[str, Argument("REFERENCE")]
    """Data to compare with, in any form that `jumbot adapt` takes; labels are used if present."""
    current: Annotated[str, Argument("CURRENT")]
    """Data that may have shifted; columns are matched by name."""
    groups: str | None = None
    """Column of groups that are permuted as a whole, such as patients; a group in both sets is compared with itself."""
    blocks: int | None = None
    """Length of the blocks of consecutive rows that are permuted as a whole, for rows in order of time."""
    fail_above: Share | None = None
    """Exit with status 1 if there is a shift (p <= .05) and more than this share of CURRENT has no counterpart in
    REFERENCE."""
    columns: Literal["same", "shared"] = "same"
    """Whether tables must have the same columns, or only shared columns are compared."""
    minutes: Positive | None = None
    """Time budget in minutes: the test uses the permutations done by then."""
    seed: Seed = 0
    """Random seed."""
    out: Path | None = None
    """Page to write, such as shift.html, with shift.json next to it; existing files are replaced."""
    json: bool = False
    """Print JSON instead of text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups is not None and self.blocks is not None:
            raise UsageError("--groups and --blocks: both were given; pass only one.")


def main(arguments: Sequence[str]) -> int:
    wanted = parse(Shift, arguments)
    check_places(wanted.reference, wanted.current)
    if wanted.out is not None and wanted.out.suffix != ".html":
        raise ArgumentError(f"out must be the name of a page that ends in .html, got {str(wanted.out)!r}.")
    import jumbot

    found = jumbot.shift(
        wanted.reference,
        wanted.current,
        groups=wanted.groups,
        blocks=wanted.blocks,
        minutes=wanted.minutes,
        seed=wanted.seed,
        columns=wanted.columns,
        **reading(wanted, Reading),
    )
    if wanted.json:
        print(json.dumps(found.to_json(), indent=2))
    else:
        say(described(found))
    if wanted.out is not None:
        page = found.report(wanted.out)
        kept = found.save(page.with_suffix(".json"))
        if not wanted.json:
            say(f"page: {page}\nfigures: {kept}")
    if found.interrupted:
        return 130
    failed = wanted.fail_above is not None and found.shifted and (found.effect or 0.0) > wanted.fail_above
    return int(failed)


def described(found: jumbot.Shift) -> str:
    """The answers in their order: whether, how large, where, what next."""
    lines = [f"{'There is a shift' if found.shifted else 'No shift was found'} (p = {found.p_value:.3g})."]
    if found.effect is not None and found.interval is not None:
        low, high = found.interval
        lines.append(
            f"{100 * found.effect:.0f} % of {found.names[1]} has no counterpart in {found.names[0]} "
            f"(95 % interval: {100 * low:.0f} to {100 * high:.0f} %). Their distance is {found.distance:.2f} times "
            f"that between two halves of {found.names[0]}."
        )
    moved = [column for column in found.columns if column.p_value <= 0.05]
    if moved:
        listed = [f"{c.name} (p = {c.p_value:.2g}, by {c.moved:+.2f})" for c in moved[:_SHOWN]]
        more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
        lines.append(f"Columns that moved, in standard deviations: {', '.join(listed)}{more}.")
    if found.where is not None:
        lines.append(
            {
                "labels": "The shift is in the labels alone.",
                "features": "The shift is in the features.",
                "both": "The shift is in labels and features.",
            }[found.where]
        )
    if found.proportions:
        shares = [
            f"{name} {100 * p.value:.0f} % [{100 * p.low:.0f}, {100 * p.high:.0f}], was {100 * p.reference:.0f}"
            for name, p in found.proportions.items()
        ]
        guess = " (a rough guess, because the classes do not look as before)" if found.where == "both" else ""
        more = f"; and {len(shares) - 2 * _SHOWN} more" if len(shares) > 2 * _SHOWN else ""
        lines.append(f"Classes of {found.names[1]}{guess}: {'; '.join(shares[: 2 * _SHOWN])}{more}.")
    lines += [remark for remark in found.remarks if remark not in found.next]
    lines.append(found.next)
    if found.looked_at != found.sizes:
        lines.append(
            f"Used {found.looked_at[0]:,} of {found.sizes[0]:,} and {found.looked_at[1]:,} of {found.sizes[1]:,} rows."
        )
    return "\n".join(lines)
