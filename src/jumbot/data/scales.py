"""Features in units of their own: one column in dollars among others in metres."""

from __future__ import annotations

import numpy as np

from jumbot.data.domain import Domain

_LARGE = 100  # times the others
_ROWS = 4096


def outsize(domain: Domain) -> str | None:
    """A sentence on the feature whose numbers dwarf the others, if there is one.

    >>> from jumbot.data import as_domain
    >>> outsize(as_domain([[1.0, 30_000.0], [2.0, 80_000.0]]))
    "Column 2 goes up to 80000 and the others to 2; scale the columns with standardise='source'"
    """
    if len(domain.shape) != 1 or domain.shape[0] < 2:
        return None
    largest = domain.samples.batch(np.arange(min(len(domain), _ROWS))).abs().amax(0).double().numpy()
    worst = int(largest.argmax())
    others = float(np.median(np.delete(largest, worst)))
    if not largest[worst] > _LARGE * max(others, 1e-30):
        return None
    columns = getattr(getattr(domain.samples, "format", None), "columns", None)
    which = f"Column {worst + 1}"
    if columns is not None and columns.named:
        which = f"Column {columns.features[worst]!r}"
    return (
        f"{which} goes up to {largest[worst]:g} and the others to {others:g}; scale the columns with "
        "standardise='source'"
    )
