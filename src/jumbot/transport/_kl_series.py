"""KL where two weights are close: x log x - x + 1 is then a difference of large numbers, and its series is not.

Times a large tau that rounding counts. Both functions are plain arithmetic, for numbers, arrays and tensors alike;
`_kernels/vectormath.py` has them compiled.
"""

from __future__ import annotations

from typing import Any

NEAR = 1e-3  # of d and of r: below it the terms left out are less than rounding


def of_ratio(d: Any) -> Any:
    """x log x - x + 1 at x = 1 + d.

    >>> of_ratio(1e-3) * 1e6
    0.49983341...
    """
    return d * d * (0.5 - d * (1.0 / 6.0 - d * (1.0 / 12.0 - d * 0.05)))


def of_log(r: Any) -> Any:
    """x log x - x + 1 at x = e^r.

    >>> of_log(1e-3) * 1e6
    0.50033345...
    """
    return r * r * (0.5 + r * (1.0 / 3.0 + r * (0.125 + r * (1.0 / 30.0))))
