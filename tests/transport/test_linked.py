"""Compiled functions that compiled ones call: typed and lowered, and optimised in their callers alone."""

import os
import re
import subprocess
import sys

import numpy as np
from numba.core.caching import NullCache

import jumbot
from jumbot.transport._kernels import gibbs, sweeps
from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._outcome import KL


@compiled()
def _total(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    return total


@compiled()
def _mean(x):
    return _total(x) / x.shape[0]


def test_what_a_function_calls_is_in_it_alone():
    assert _mean(np.arange(4.0)) == 1.5
    assert not _total.overloads
    assert _total(np.arange(4.0)) == 6.0, "Python calls a function of its own"
    assert len(_total.overloads) == 1


def test_closures_are_distinguished_by_their_callers(tmp_path):
    """In a third process, which has both callers from the cache: their callees have the same name."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONHASHSEED": "0"}
    (tmp_path / "closures.py").write_text(CLOSURES)
    for wanted in ("a", "b", "ab"):
        call = f"import closures; print(*(closures.call(name) for name in {wanted!r}))"
        done = subprocess.run(
            [sys.executable, "-c", call], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
    assert done.stdout.split() == ["10.0", "20.0"]


def test_long_loops_are_functions_that_are_vectorised():
    """Inlined before they are vectorised, half of them would not be."""
    jumbot.solve(np.random.default_rng(0).random((20, 20)), epsilon=0.01, tau=0.5)
    kernel = compiled()(sweeps.solver(KL, KL).py_func)
    kernel._cache = NullCache()  # what comes from a file cannot be looked at
    kernel.compile(sweeps.solver(KL, KL).signatures[0])
    [code] = kernel.inspect_llvm().values()
    bodies = dict(re.findall(r'^define [^@]*@"?([^"(]+).*?\{\n(.*?)^\}', code, re.MULTILINE | re.DOTALL))
    for name in ("scalings", "fill", "row_sums", "add_columns", "side_kl", "scale_to_plan", "remember"):
        [body] = [body for function, body in bodies.items() if f"{len(name)}{name}B" in function]
        assert re.search(r"<\d+ x double>", body), name
    assert not any("7set_allB" in function for function in bodies), "the shortest are inlined"


def test_python_and_compiled_callers_get_the_same():
    rng = np.random.default_rng(0)
    cost, f, g = rng.random((7, 9)), rng.normal(size=7), rng.normal(size=9)
    K, again = np.empty((7, 9)), np.empty((7, 9))

    @compiled()
    def call(cost, f, g, K):
        gibbs.fill(cost, 1.0, f, g, gibbs.CUT, K)

    call(cost, f, g, K)
    gibbs.fill(cost, 1.0, f, g, gibbs.CUT, again)
    np.testing.assert_array_equal(K, again)
    np.testing.assert_allclose(K, np.exp(f[:, None] + g - cost), rtol=1e-14)


CLOSURES = """
import numpy as np
from jumbot.transport._kernels.decorator import compiled

def inner_of(times):
    @compiled()
    def inner(x):
        total = 0.0
        for i in range(x.shape[0]):
            total += times * x[i]
        return total
    return inner

first, second = inner_of(1.0), inner_of(2.0)

@compiled()
def a(x):
    return first(x)

@compiled()
def b(x):
    return second(x)

def call(name):
    return globals()[name](np.full(10, 1.0))
"""
SCRIPT = """
import numpy as np
from jumbot.transport._kernels.decorator import compiled

@compiled()
def inner(x):
    return x[5]

@compiled()
def outer(x):
    return inner(x) + 1.0

try:
    outer(np.zeros(3))
except IndexError as error:
    print("refused", error)
"""


def test_bounds_are_checked_where_numba_is_asked_to(tmp_path):
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], env=environment, capture_output=True, text=True)
    assert done.stdout.startswith("refused"), done
