"""Where a value follows POT's formula and POT's own does not: said once."""

from __future__ import annotations

import warnings

#: name -> what differs; `docs/guide/compat.md` has the list.
DIFFERENCES = {
    "total_cost": (
        "the total cost of an entropic unbalanced problem includes the mass terms of KL, as POT's formula has them; "
        "the value that POT returns leaves them out"
    ),
    "tv": "problems with TV are solved to the optimum; POT's own solver can stop where it starts",
    "exact_batch": (
        "exact problems of solve_batch are solved to the optimum; the plans of POT's proximal method are not optimal"
    ),
    "stabilised": (
        "sinkhorn_stabilized solves the same problem as sinkhorn; POT's own loses it when it absorbs its scalings"
    ),
}
_said: set[str] = set()


class PeerDifferenceWarning(UserWarning):
    """A value that differs from that of the library whose call it answers, which is not what its formula says."""


def differs(name: str) -> None:
    """Warn of a difference, once in a process."""
    if name not in _said:
        _said.add(name)
        warnings.warn(f"jumbot.compat.ot: {DIFFERENCES[name]}.", PeerDifferenceWarning, stacklevel=4)
