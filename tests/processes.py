"""Code in processes of its own that share what takes long to import: one interpreter does it, copies of it go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from subprocess import CompletedProcess

_DRIVER = """
import json, os, sys, tempfile, traceback
before, codes = json.load(sys.stdin)
exec(before)

def run(code):
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
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
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return status, out.read(), err.read()

print(json.dumps({name: run(code) for name, code in codes.items()}))
"""


def run_apart(
    codes: Mapping[str, str], before: str = "import torch", flags: Sequence[str] = ()
) -> dict[str, CompletedProcess[str]]:
    """Each code by itself, in a copy of an interpreter in which `before` was run; what it said, by its name."""
    if not hasattr(os, "fork"):
        return {
            name: subprocess.run([sys.executable, *flags, "-c", f"{before}\n{code}"], capture_output=True, text=True)
            for name, code in codes.items()
        }
    command = [sys.executable, *flags, "-c", _DRIVER]
    done = subprocess.run(command, input=json.dumps([before, codes]), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, str, str]] = json.loads(done.stdout)
    return {name: CompletedProcess(codes[name], *output) for name, output in found.items()}
