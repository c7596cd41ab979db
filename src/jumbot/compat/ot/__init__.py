"""POT's calls, solved by jumbot; everything else is POT's own.

>>> from jumbot.compat import ot
>>> plan, log = ot.sinkhorn([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 1.0, log=True)
>>> plan.round(4).tolist(), log["certificate"].verdict
([[0.3655, 0.1345], [0.1345, 0.3655]], 'within 1e-12 of the optimum')
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from jumbot.compat.ot._exact_calls import (
    emd,
    emd2,
    entropic_partial_wasserstein,
    entropic_partial_wasserstein_logscale,
    partial_wasserstein,
    partial_wasserstein2,
)
from jumbot.compat.ot._pot import PeerDifferenceWarning, pot
from jumbot.compat.ot._sinkhorn_calls import sinkhorn, sinkhorn2
from jumbot.compat.ot._solve_calls import solve, solve_batch, solve_sample
from jumbot.compat.ot._unbalanced_calls import (
    mm_unbalanced,
    mm_unbalanced2,
    sinkhorn_knopp_unbalanced,
    sinkhorn_stabilized_unbalanced,
    sinkhorn_unbalanced,
    sinkhorn_unbalanced2,
)

__all__ = [
    "PeerDifferenceWarning",
    "batch",
    "bregman",
    "emd",
    "emd2",
    "lp",
    "partial",
    "sinkhorn",
    "sinkhorn2",
    "sinkhorn_unbalanced",
    "sinkhorn_unbalanced2",
    "solve",
    "solve_batch",
    "solve_sample",
    "solvers",
    "unbalanced",
]


class _Overlay(ModuleType):
    """A module of POT's in which some functions are ours."""

    def __init__(self, name: str, *ours: Callable[..., Any]) -> None:
        super().__init__(
            f"{__name__}.{name}", f"`ot.{name}`, of which ours are: {', '.join(f.__name__ for f in ours)}."
        )
        self._pot = name
        self.__dict__.update({function.__name__: function for function in ours})
        sys.modules[self.__name__] = self  # so that `from jumbot.compat.ot.unbalanced import ...` finds it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(pot(self._pot), name)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(pot(self._pot))})


lp = _Overlay("lp", emd, emd2)
bregman = _Overlay("bregman", sinkhorn, sinkhorn2)
unbalanced = _Overlay(
    "unbalanced",
    sinkhorn_unbalanced,
    sinkhorn_unbalanced2,
    sinkhorn_knopp_unbalanced,
    sinkhorn_stabilized_unbalanced,
    mm_unbalanced,
    mm_unbalanced2,
)
partial = _Overlay(
    "partial",
    partial_wasserstein,
    partial_wasserstein2,
    entropic_partial_wasserstein,
    entropic_partial_wasserstein_logscale,
)
batch = _Overlay("batch", solve_batch)
solvers = _Overlay("solvers", solve, solve_sample)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(pot(), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(pot())})
