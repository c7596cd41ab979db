"""What jumbot uses of numba beside its public interface: there with the versions that are allowed, and not needed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from subprocess import CompletedProcess

import numba
import pytest

from jumbot.transport._kernels import decorator
from tests.processes import run_apart

ROOT = Path(__file__).parents[2]
HIDDEN = {
    "nothing": ("", "CodeCache Linked"),
    "a class of the compiler": ("import numba.core.codegen as c; del c.JITCodeLibrary", "CodeCache None"),
    "a method that is replaced": (
        "import numba.core.codegen as c; c.JITCodeLibrary = type('JITCodeLibrary', (), {})",
        "CodeCache None",
    ),
    "the cache": ("import numba.core.caching as c; del c.CompileResultCacheImpl", "None Linked"),
    "both": (
        "import numba.core.caching as c, numba.core.codegen as d; del c.CompileResultCacheImpl, d.JITCodeLibrary",
        "None None",
    ),
    "a version that works": ("import numba; numba.__version__ = '9.1.0'", "CodeCache Linked"),
    "a version that differs": (
        "import numba; numba.__version__ = '9.1.0'\n"
        "import numba.core.codegen as c\n"
        "class Other(c.JITCodeLibrary):\n"
        "    def __init__(self, codegen, name, reason): pass\n"
        "c.JITCodeLibrary = Other",
        "None None",
    ),
    "an option that is gone": (
        "import numba; numba.__version__ = '9.1.0'\nimport numba.core.cpu as c; c.CPUTargetOptions._nrt = None",
        "None None",
    ),
}
SCRIPT = """
import numpy as np
from jumbot.transport._kernels import decorator
print(*(getattr(part, "__name__", part) for part in (decorator.CACHE, decorator.LINKED)))

@decorator.compiled()
def total(x):
    found = 0.0
    for i in range(x.shape[0]):
        found += x[i]
    return found

@decorator.compiled(allocates=True)
def deviations(x):
    return x - total(x) / x.shape[0]

def times(factor):
    @decorator.compiled()
    def product(x):
        return factor * total(x)
    return product

print(*deviations(np.arange(3.0)), times(2.0)(np.arange(3.0)), times(3.0)(np.arange(3.0)))
print(sum(deviations.stats.cache_hits.values()))
"""


TWICE = ("nothing", "the cache", "both")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompletedProcess[str]]:
    """Each case in a process that has numba and nothing of ours yet, some in two, one after the other."""
    codes = {}
    for case, (hide, _) in HIDDEN.items():
        place = tmp_path_factory.mktemp("numba")
        (place / "script.py").write_text(SCRIPT)
        cache = f"import numba; numba.config.CACHE_DIR = {str(place / 'cache')!r}"
        run = f"import runpy; runpy.run_path({str(place / 'script.py')!r})"
        files = f"import os; print(sorted(n for *_, names in os.walk({str(place / 'cache')!r}) for n in names))"
        for turn in range(2 if case in TWICE else 1):
            codes[f"{case} {turn}"] = "\n".join((cache, hide, run, files))
    return run_apart(codes, "import numpy, torch, numba", ("-W", "error::UserWarning"))


@pytest.mark.parametrize("case", HIDDEN)
def test_hidden_names(case: str, runs: dict[str, CompletedProcess[str]]) -> None:
    """The same numbers, and stored for the next process, whatever numba has."""
    printed, files = [], []
    for turn in range(2 if case in TWICE else 1):
        done = runs[f"{case} {turn}"]
        assert done.returncode == 0, done.stderr
        *lines, listed = done.stdout.splitlines()
        printed.append(lines)
        files.append(listed)
    assert printed == [[HIDDEN[case][1], "-1.0 0.0 1.0 6.0 9.0", hits] for hits in ("0", "1")[: len(printed)]]
    assert ".nbi" in files[0]
    assert files[0] == files[-1], "the second process finds what the first one stored, and adds nothing"


@pytest.mark.slow
def test_a_solve_without_private_names(tmp_path: Path) -> None:
    solve = "import numpy as np, jumbot; c = np.random.default_rng(0).random((20, 20)); print(*(" + ", ".join(
        f"jumbot.solve(c, epsilon={epsilon}, tau=0.5, divergence={name!r}).value.item()"
        for epsilon, name in ((0.01, "kl"), (0.01, "tv"), (0.0, "kl"))
    )
    printed = []
    for hide in (HIDDEN["both"][0], ""):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / str(len(hide)))}
        command = [sys.executable, "-c", f"{hide}\n{solve}))"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.append([float(value) for value in done.stdout.split()])
    assert printed[0] == pytest.approx(printed[1], rel=1e-12)


def test_the_bounds_are_what_was_tried() -> None:
    """`make pytest DEPENDENCIES=newest` installs numba above its bound: then this says whether to raise it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [bounds] = [line for line in project["dependencies"] if line.startswith("numba")]
    least, below = (".".join(map(str, version)) for version in decorator._TRIED)
    assert bounds == f"numba>={least},<{below}"
    assert decorator.CACHE is not None, f"numba {numba.__version__} has another cache inside"
    assert decorator.LINKED is not None, f"numba {numba.__version__} has another compiler inside"
