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


OTHERS = ("_lambert", "_power", "_tv", "_range", "_exact")


@pytest.mark.slow
def test_of_kl_compiles_its_own_kind_alone_and_gives_the_same_bits(tmp_path):
    """6 to 7 s of processor time on a busy machine, where inlined steps and sides took 8 to 9."""
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
    assert {"sweeps.solver.locals.solve_range", "sides.side_kl"} <= names
    assert not [name for name in names - {"sweeps.solver.locals.solve_range"} if name.endswith(OTHERS)]
    assert not [name for name in names if name.startswith(("symmetric", "row_blocks"))]
    assert len(names) < 32, "each one costs a tenth of a second"
