"""Ctrl-C ends what would take long: compiled sweeps, exact methods, chunks of minibatches; in one thread and in two."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

import jumbot
from jumbot.transport._kernels.threads import Stop, run

#: each would take many seconds; tol = 0 is never reached
LONG = {
    "a batch": "jumbot.solve(rng.random((4000, 64, 64)), epsilon=1e-4, tau=100.0, tol=0.0)",
    "one problem": "jumbot.solve(rng.random((1000, 1000)), epsilon=1e-5, tau=100.0, tol=0.0)",
    "balanced": "jumbot.solve(rng.random((700, 64, 64)), epsilon=1e-4, tol=0.0)",
    "a large problem": "jumbot.solve(rng.random((3000, 2000)), epsilon=1e-5, tau=100.0, tol=0.0)",
    "a fixed mass": "jumbot.solve(rng.random((300, 64, 64)), epsilon=1e-4, mass=0.5, tol=0.0)",
    "torch operations": "jumbot.solve(rng.random((1100, 1100)), epsilon=1e-4, mass=0.5, tol=0.0)",
    "the interior point": "jumbot.solve(rng.random((2500, 2500)), epsilon=0.0, tau=5.0, tol=0.0)",
    "a divergence": "jumbot.sinkhorn_divergence(rng.random((2000, 64, 2)), rng.random((2000, 64, 2)), epsilon=1e-4, "
    "tau=100.0, tol=0.0)",
    # last: its thread cannot be stopped, and would take a core from the others
    "the network simplex": "jumbot.solve(rng.random((7000, 7000)), epsilon=0.0)",
}
MOST = 8.0  # seconds after the signal, by the wall or of this process: on a busy machine the wall counts the others

PROGRAM = """
import os, signal, sys, threading, time, numpy as np, torch, jumbot

def clocks():
    return np.array([time.perf_counter(), time.process_time()])

def interrupt():
    global sent
    sent = clocks()
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
torch.set_num_threads({threads})
rng = np.random.default_rng(0)
# compiles, or loads what is compiled: the compiler itself may lose a signal
for epsilon in (0.0, 0.1):
    jumbot.solve(rng.random((300, 300)), epsilon=epsilon, tau=1.0)
jumbot.solve(rng.random((1100, 1000)), epsilon=0.1, tau=1.0)
for epsilon in (1e-4, 0.1):
    jumbot.solve(rng.random((2, 64, 64)), epsilon=epsilon, tau=100.0)
    jumbot.solve(rng.random((2, 64, 64)), epsilon=epsilon)
    jumbot.solve(rng.random((2, 64, 64)), epsilon=epsilon, mass=0.5)
jumbot.sinkhorn_divergence(rng.random((2, 64, 2)), rng.random((2, 64, 2)), epsilon=0.1, tau=1.0)
for name, call in {{{calls}}}.items():
    threading.Timer(1.0, interrupt).start()
    try:
        call()
        print(name, "was over too soon")
    except KeyboardInterrupt:
        taken = min(clocks() - sent)
        if taken > {most}:
            print(name, "went on for", taken)
print("end", flush=True)
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.slow
def test_ctrl_c(threads):
    """The end comes soon too, though the thread of a simplex is still at work."""
    calls = ", ".join(f"{name!r}: lambda: {call}" for name, call in LONG.items())
    program = PROGRAM.format(threads=threads, calls=calls, most=MOST)
    child = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=600)
    assert child.stdout == "end\n", child.stdout + child.stderr
    assert child.returncode == 0, child.stderr


@pytest.fixture(autouse=True)
def heed_signals():
    """A shell starts its background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted_after(seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.parametrize("threads", [1, 2])
def test_the_next_call_is_as_good(threads, rng):
    """Nothing is left behind: no thread that goes on, no state."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        cost = rng.random((2000, 64, 64))
        expected = jumbot.solve(cost[:20], epsilon=0.01, tau=1.0).plan
        interrupted_after(0.5)
        with pytest.raises(KeyboardInterrupt):
            jumbot.solve(cost, epsilon=1e-4, tau=100.0, tol=0.0)
        cpu = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - cpu < 0.3, "some thread is still at work"
        np.testing.assert_array_equal(jumbot.solve(cost[:20], epsilon=0.01, tau=1.0).plan, expected)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["estimate", "gradient_flow"])
def test_what_is_done_is_returned(name, threads, rng):
    """By the calls that go step by step."""
    x, y = rng.random((1000, 2)), rng.random((1000, 2))

    def call(amount):
        if name == "estimate":
            return jumbot.estimate(x, y, m=64, k=amount, epsilon=1e-3, tau=10.0, chunk=32)
        return jumbot.gradient_flow(x, y, m=64, k=8, steps=amount, learning_rate=0.01, epsilon=1e-3, tau=10.0)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        call(2)
        interrupted_after(1.0)
        began = time.perf_counter()
        result = call(100_000)
        assert time.perf_counter() - began < 1 + MOST
        assert result.interrupted
    finally:
        torch.set_num_threads(before)


def test_an_error_in_one_thread_is_raised_and_stops_the_others():
    done, stop = [], Stop()

    def task(k):
        if k == 1:
            raise ZeroDivisionError(k)
        done.append(k)

    with pytest.raises(ZeroDivisionError):
        run(task, range(1000), stop)
    assert stop
    assert len(done) < 1000
    assert run(lambda k: k, range(3)) == [0, 1, 2]
