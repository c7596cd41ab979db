"""What rows of numbers are: measurements and categories, counts of words, or features of a pretrained network."""

from __future__ import annotations

from typing import Literal

from jumbot.data._column_kinds import kind_of_column, plain_columns
from jumbot.data._domain import Domain, even_rows
from jumbot.data._inputs import parts_of
from jumbot.data._tables import TableSamples

NARROW = 256
"""Columns up to which rows of numbers are treated as measurements: features of pretrained networks have more."""
ZEROS = 0.8  # share of zeros from which wide rows are counts of what a sample has: words, visits, genes
_ROWS, _NUMBERS = 256, 2**22  # looked at


def kind_of_rows(domain: Domain) -> Literal["measurements", "words", "features"]:
    """By categories, width and zeros; a matrix is the same whether it is stored sparse or not.

    >>> import numpy as np
    >>> from jumbot.data import as_domain
    >>> [kind_of_rows(as_domain(rows)) for rows in (np.ones((4, 3)), np.eye(400), np.ones((4, 400)))]
    ['measurements', 'words', 'features']
    """
    width = domain.shape[0]
    if width <= NARROW or any(_has_categories(part) for part in parts_of(domain)):
        return "measurements"
    rows = even_rows(len(domain), max(min(_ROWS, _NUMBERS // width), 1))
    return "words" if float((domain.samples.batch(rows) == 0).double().mean()) >= ZEROS else "features"


def _has_categories(domain: Domain) -> bool:
    samples = domain.samples
    if not isinstance(samples, TableSamples):
        return False
    frame = samples.table.frame
    plain = plain_columns(frame)
    return any(column not in plain and kind_of_column(frame[column]) != "numbers" for column in frame)
