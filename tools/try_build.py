"""Install the files in dist/ as a user would, far from the repository, and ask them what they can do.

python tools/try_build.py [--demo]: the wheel and the source distribution, each in a new virtual environment with the
versions of constraints.txt; `jumbot doctor` must find nothing broken.  With --demo the wheel also runs the demo.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from heartbeat import run, say

ROOT = Path(__file__).resolve().parents[1]


def try_file(file: Path, demo: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        say(f"build: a new environment for {file.name}")
        run("build", [sys.executable, "-m", "venv", str(place / "venv")])
        programs = place / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        pip = [str(programs / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
        pip += ["--constraint", str(ROOT / "constraints.txt"), f"jumbot[demo] @ {file.as_uri()}"]
        if run("build", pip, place / "log"):
            sys.exit((place / "log").read_text(encoding="utf-8", errors="replace"))
        for command in (["--version"], ["doctor"], *([["demo"]] if demo else [])):
            subprocess.run([str(programs / "jumbot"), *command], cwd=place, check=True)
        if demo and not (place / "demo" / "report.html").exists():
            sys.exit(f"build: {file.name} ran the demo, but there is no report")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true", help="run the demo from the wheel; some four minutes")
    demo = parser.parse_args().demo
    wheel, source = sorted((ROOT / "dist").glob("*.whl")), sorted((ROOT / "dist").glob("*.tar.gz"))
    if len(wheel) != 1 or len(source) != 1:
        sys.exit("build: dist/ must hold one wheel and one source distribution; run: make build")
    try_file(source[0], False)
    try_file(wheel[0], demo)


if __name__ == "__main__":
    main()
