"""Tell a peer when to stop: the loosest of its settings whose answer reaches the accuracy asked for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from benchmarks.judge import Judge
from benchmarks.peers.base import Peer


@dataclass(frozen=True)
class Calibration:
    """The setting found, what it reaches, and its place on the ladder, where the next problem starts."""

    setting: Any
    quality: float
    reached: bool
    index: int
    seconds: float


def calibrate(peer: Peer, data: Any, judge: Judge, limit: float, hint: int | None = None) -> Calibration:
    """Walk up the ladder until the judge is content, then back down by bisection.

    Quality is taken to improve along the ladder. A peer that has not arrived when one call takes more than
    `limit` seconds is left there.
    """
    settings = list(peer.settings)
    seen: dict[int, Calibration] = {}

    def at(index: int) -> Calibration:
        if index not in seen:
            start = time.perf_counter()
            answer = peer.answer(data, settings[index])
            seconds = time.perf_counter() - start
            if seconds > limit:  # once more: a busy moment of the machine must not rule a peer out
                start = time.perf_counter()
                peer.call(data, settings[index])
                seconds = min(seconds, time.perf_counter() - start)
            quality = judge(*answer)
            seen[index] = Calibration(settings[index], quality, quality <= judge.tolerance, index, seconds)
        return seen[index]

    peer.call(data, settings[0])  # compiles
    low, high, stride = -1, hint or 0, peer.stride if hint is None else 1
    while not at(high).reached:
        if high == len(settings) - 1 or seen[high].seconds > limit:
            return seen[high]
        low, high = high, min(high + stride, len(settings) - 1)
    if hint is not None and low < 0:
        while high > 0 and at(high - 1).reached:
            high -= 1
        return seen[high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle).reached else (middle, high)
    return seen[high]
