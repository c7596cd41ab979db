"""One adapter a peer and kind of problem; `peers_for` returns those of a regime that are installed.

An adapter converts conventions and hides nothing: `prepare` brings a cost matrix into the peer's own array
type (not timed), `call` solves it and materialises the plan (timed), `answer` reads plan and potentials (not
timed). `settings` runs from loose to tight: calibration finds the loosest one whose answer has a relative gap
within 1e-10, so that each peer does the least work that the comparison allows.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version

import jumbot
from benchmarks.peers.base import Peer
from benchmarks.regimes import Regime

MODULES = {"pot": "ot", "ott": "ott", "geomloss": "geomloss"}
PACKAGES = {"pot": "POT", "ott": "ott-jax", "geomloss": "geomloss"}


def peers_for(regime: Regime) -> tuple[list[Peer], list[str]]:
    """The adapters of a regime, and a line for each peer that is absent."""
    found: list[Peer] = []
    absent: list[str] = []
    for name in regime.peers:
        try:
            importlib.import_module(MODULES[name])
        except ImportError as error:
            absent.append(f"{PACKAGES[name]} is skipped: it does not import here ({error})")
            continue
        found += importlib.import_module(f"benchmarks.peers.{name}").adapters(regime)
    return found, absent


def versions() -> dict[str, str]:
    """Installed versions of everything that the figures depend on."""
    names = (
        "torch",
        "numpy",
        "scipy",
        "numba",
        "POT",
        "ott-jax",
        "jax",
        "geomloss",
        "cvxpy",
        "clarabel",
    )
    found = {"jumbot": jumbot.__version__}  # of the code that runs, wherever another one is installed
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
