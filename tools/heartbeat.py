"""Run a command and never be silent for ten seconds: python tools/heartbeat.py LABEL COMMAND ...

What the command prints passes through; while it prints nothing, a line says how long it has run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

EVERY = 8.0  # seconds
#: how lines of pip begin that say what it is at
TELLING = ("Collecting", "Downloading", "Using cached", "Building", "Installing")

_spoken = [time.monotonic()]  # when something was last printed, by whichever of several commands


def say(text: str) -> None:
    print(text, flush=True)
    _spoken[0] = time.monotonic()


def run(label: str, command: list[str], log: Path | None = None) -> int:
    """The exit code of `command`; with a log its output goes there, and pip's latest deed is told with the time."""
    start = time.monotonic()
    terminal = sys.stdout.isatty()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if log is None and terminal:  # the command sees a pipe; what it prints ends up on the terminal all the same
        environment = {"FORCE_COLOR": "1", "COLUMNS": str(shutil.get_terminal_size().columns), **environment}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = _Output(process, log)
    try:
        while not output.ended.wait(0.1):
            now = time.monotonic()
            if now - _spoken[0] > EVERY:
                say(f"{output.break_line()}{label}: {now - start:.0f} s{output.latest()}")
    except KeyboardInterrupt:  # the command had it too, and has the last word
        output.ended.wait()
    return process.wait()


class _Output(threading.Thread):
    """Reads what the process prints, into the log or on to standard output."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path | None) -> None:
        super().__init__(daemon=True)
        self.process, self.log = process, log
        self.ended, self._tail = threading.Event(), b"\n"
        self.start()

    def run(self) -> None:
        assert self.process.stdout is not None
        sink = self.log.open("wb") if self.log else sys.stdout.buffer
        while block := os.read(self.process.stdout.fileno(), 1 << 16):
            sink.write(block)
            sink.flush()
            self._tail = (self._tail + block)[-20_000:]
            if not self.log:
                _spoken[0] = time.monotonic()
        self.process.stdout.close()
        if self.log:
            sink.close()
        self.ended.set()

    def break_line(self) -> str:
        return "" if self.log or self._tail.endswith(b"\n") else "\n"

    def latest(self) -> str:
        """What pip is at, where the output goes to a log."""
        lines = [x.strip() for x in self._tail.decode(errors="replace").split("\n")]
        line = next((x for x in reversed(lines) if x.startswith(TELLING)), "")
        return f", {line[:90]}" if self.log and line else ""


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
