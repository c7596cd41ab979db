"""The first solve on an empty cache: what it takes, and that its bits are those of a cached one."""

import os
import subprocess
import sys

import pytest

CALL = """
import hashlib, time
import numba, numpy as np, jumbot
cost = np.random.default_rng(0).random((65, 65))
jumbot.solve(cost[:1], epsilon=0.0, mass=1.0)  # imports, without the sweeps
before = time.process_time()
solution = jumbot.solve(cost, epsilon=0.01, tau=0.5)
print(time.process_time() - before, hashlib.sha256(solution.plan.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_of_kl_compiles_one_function_and_gives_the_same_bits(tmp_path):
    """4 to 5 s of processor time, where functions that were compiled by themselves too took 5 to 6."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    (first, bits), (second, again) = (run.split() for run in runs)
    assert float(first) < 12
    assert float(second) < 2
    assert bits == again
    names = {path.name.partition(".py")[0] for path in tmp_path.rglob("*.nbi")}
    assert names == {"sweeps.solver.locals.solve_range"}, "one function holds all that it calls"
