"""Code in processes of its own that share what takes long to import: one interpreter does it, copies of it go on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from subprocess import CompletedProcess

_DRIVER = """
import json, os, sys, tempfile, traceback
before, together, codes = json.load(sys.stdin)
exec(before)

def start(code):
    out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
    if (child := os.fork()) == 0:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        status = 0
        try:
            exec(code, {"__name__": "__main__"})
        except SystemExit as stop:
            status = int(stop.code or 0)
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return child, out, err

def finish(child, out, err):
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    out.seek(0)
    err.seek(0)
    return status, out.read(), err.read()

if together:
    begun = [start(code) for code in codes.values()]
    found = [finish(*each) for each in begun]
else:
    found = [finish(*start(code)) for code in codes.values()]
print(json.dumps(dict(zip(codes, found))))
"""
#: what torchrun gives each of several processes of one machine
_RANK = "import os; os.environ.update(RANK='{0}', LOCAL_RANK='{0}', WORLD_SIZE='{1}', LOCAL_WORLD_SIZE='{1}', {2})\n"


def run_ranks(code: str, count: int = 2, before: str = "import torch") -> list[CompletedProcess[str]]:
    """The code in several processes that may form a group, as torchrun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"MASTER_ADDR='127.0.0.1', MASTER_PORT='{free.getsockname()[1]}'"
    codes = {str(rank): _RANK.format(rank, count, place) + code for rank in range(count)}
    return [*run_apart(codes, before, together=True).values()]


def run_apart(
    codes: Mapping[str, str], before: str = "import torch", flags: Sequence[str] = (), together: bool = False
) -> dict[str, CompletedProcess[str]]:
    """Each code in a copy of an interpreter in which `before` was run, one after the other or `together`."""
    if not hasattr(os, "fork") and not together:
        return {
            name: subprocess.run([sys.executable, *flags, "-c", f"{before}\n{code}"], capture_output=True, text=True)
            for name, code in codes.items()
        }
    command = [sys.executable, *flags, "-c", _DRIVER]
    done = subprocess.run(
        command, input=json.dumps([before, together, codes]), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, str, str]] = json.loads(done.stdout)
    return {name: CompletedProcess(codes[name], *output) for name, output in found.items()}
