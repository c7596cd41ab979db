"""POT's own tests, run against `jumbot.compat.ot`: `python tools/peers_tests.py CHECKOUT [--json FILE]`.

Takes the path of a checkout of POT (https://github.com/PythonOT/POT) and fetches nothing.  The installed POT answers
what we do not; in the test modules `ot` and what is imported from it are replaced by ours.  Counted are the tests that
pass with POT itself here and call one of our functions.  A test that fails needs a line of reason in `REASONS`; the
exit status is 0 where at least 95 % pass and no failure lacks its reason.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.update(POT_BACKEND_DISABLE_JAX="1", POT_BACKEND_DISABLE_TENSORFLOW="1", POT_BACKEND_DISABLE_CUPY="1")

import pytest

LEAST = 0.95
FILES = (
    "test_ot.py",
    "test_bregman.py",
    "unbalanced/test_sinkhorn.py",
    "unbalanced/test_mm.py",
    "test_partial.py",
    "test_solvers.py",
    "batch/test_solve_batch.py",
    "test_utils.py",
)
#: The beginning of a test's name -> why it fails, and why that is meant.
REASONS = {
    "test_nan_warning": "reg = 0, at which POT divides by zero and warns, is refused by name",
    "test_warnings": "emd warns there that it stopped after one pivot; ours is solved whatever numItermax is",
    "test_unbalanced_relaxation_parameters": (
        "reg_m = inf between masses of 1 and 49.6: no plan meets both marginals, and it is refused as by jumbot.solve"
    ),
}


class Run:
    """A plugin of pytest: which tests passed, and which of them called a function of ours."""

    def __init__(self, ours: bool) -> None:
        self.ours = ours
        self.passed: dict[str, bool] = {}
        self.called: set[str] = set()
        self.why: dict[str, str] = {}
        self._now = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.ours:
            for module in {item.module for item in items}:
                self._replace(module)

    def _replace(self, module: ModuleType) -> None:
        import ot

        from jumbot.compat import ot as compat

        functions = {}
        modules = {
            name: getattr(compat, name) for name in compat.__all__ if isinstance(getattr(compat, name), ModuleType)
        }
        for path, place in {"": compat, **modules}.items():
            theirs = getattr(ot, path) if path else ot
            for name, value in list(vars(place).items()):
                if getattr(value, "__module__", "").startswith("jumbot.compat.ot._") and hasattr(theirs, name):
                    functions[name] = self._watched(value)
                    setattr(place, name, functions[name])
        for name, value in list(vars(module).items()):
            if value is ot:
                setattr(module, name, compat)
            elif getattr(value, "__module__", "").startswith("ot.") and name in functions:
                setattr(module, name, functions[name])

    def _watched(self, function: Any) -> Any:
        if hasattr(function, "watched"):
            return function

        @functools.wraps(function)
        def call(*arguments: Any, **settings: Any) -> Any:
            self.called.add(self._now)
            return function(*arguments, **settings)

        call.watched = True  # type: ignore[attr-defined]
        return call

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._now = nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed or (report.when == "call" and report.passed):
            self.passed[report.nodeid] = self.passed.get(report.nodeid, True) and report.passed
        if report.failed:
            self.why[report.nodeid] = str(report.longreprtext).strip().splitlines()[-1]


@dataclass(frozen=True)
class Outcome:
    """What a run has seen, as a process can hand it over."""

    passed: dict[str, bool]
    called: set[str]
    why: dict[str, str]


def run(checkout: Path, ours: bool, select: str, only: str) -> Outcome:
    plugin = Run(ours)
    files = [str(checkout / "test" / name) for name in FILES if (checkout / "test" / name).exists() and only in name]
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(checkout / "test"), "--tb=short"]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*options, *(["-k", select] if select else []), *files], plugins=[plugin])
    return Outcome(plugin.passed, plugin.called, plugin.why)


def reason(test: str) -> str:
    name = test.rpartition("::")[2]
    return next((why for start, why in REASONS.items() if name.startswith(start)), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of POT, with its folder test/")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("-k", default="", help="only tests that match, as for pytest")
    parser.add_argument("--file", default="", help="only files whose name has this in it")
    given = parser.parse_args()
    if not (given.checkout / "test").is_dir():
        parser.error(f"{given.checkout} has no folder test/; pass a checkout of POT")
    sys.path = [place for place in sys.path if Path(place or ".").resolve() != given.checkout.resolve()]
    # a process each: the second run would find the test modules of the first
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        theirs, ours = pool.map(run, [given.checkout] * 2, [False, True], [given.k] * 2, [given.file] * 2)
    if missing := set(theirs.passed) - set(ours.passed):
        parser.error(f"{len(missing)} tests ran with POT alone, such as {min(missing)}")
    if not any(theirs.passed.values()):
        parser.error("no test was found that passes with POT itself")
    counted = sorted(test for test, passed in theirs.passed.items() if passed and test in ours.called)
    failed = [test for test in counted if not ours.passed.get(test)]
    share = 1 - len(failed) / max(len(counted), 1)
    print(f"POT's tests that call our functions: {len(counted) - len(failed)} of {len(counted)} pass ({share:.1%})")
    print(f"of all {len(theirs.passed)} tests in these files {sum(theirs.passed.values())} pass with POT itself")
    for test in failed:
        print(f"  {test.removeprefix('test/')}\n    {ours.why.get(test, '')}\n    {reason(test) or 'NO REASON'}")
    if given.json:
        record = {"passed": len(counted) - len(failed), "counted": len(counted), "share": share}
        given.json.write_text(json.dumps(record | {"failed": {t: reason(t) for t in failed}}, indent=1) + "\n")
    return int(share < LEAST or not all(map(reason, failed)))


if __name__ == "__main__":
    sys.exit(main())
