"""Freed memory stays with the process."""

import subprocess
import sys

import pytest

STEPS = """
import resource, torch
from jumbot.adaptation._training.accelerator import keep_freed_memory
listened = {keep} and keep_freed_memory()
def step():
    torch.empty(1 << 24).fill_(1.0)  # 64 MB, touched and freed
for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(int(listened), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: bool) -> tuple[int, int]:
    """Whether the C library listened, and the pages that ten steps had mapped and cleared anew."""
    script = STEPS.format(keep=keep)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    listened, count = map(int, done.stdout.split())
    return listened, count


@pytest.mark.slow
def test_large_blocks_are_not_mapped_anew_at_each_step() -> None:
    listened, kept = faults(True)
    if not listened:
        pytest.skip("this C library has no mallopt")
    _, plain = faults(False)
    assert kept < plain  # mostly none, but where the heap cannot grow in place some remain
