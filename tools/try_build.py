"""Install the files in dist/ as a user would, far from the repository, and ask them what they can do.

python tools/try_build.py [--demo]: a new virtual environment with the versions of constraints.txt, in which first the
source distribution and then the wheel must run `jumbot doctor`, which must find nothing broken.  With --demo the wheel
then runs the demo.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from heartbeat import run, say

ROOT = Path(__file__).resolve().parents[1]


def find(pattern: str) -> Path:
    files = list((ROOT / "dist").glob(pattern))
    if len(files) != 1:
        sys.exit(f"build: dist/ contains {len(files)} files {pattern} instead of one; run: make build")
    return files[0]


class Environment:
    """A new virtual environment below `place`, and the command in it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.programs = place / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        run("build", [sys.executable, "-m", "venv", str(place / "venv")])

    def install(self, file: Path, *options: str) -> None:
        say(f"build: installing {file.name} in a new environment")
        pip = [str(self.programs / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        pip += [*options, "--constraint", str(ROOT / "constraints.txt"), f"jumbot[demo] @ {file.as_uri()}"]
        log = self.place / "log"
        if run("build", pip, log):
            sys.exit(log.read_text(encoding="utf-8", errors="replace"))

    def jumbot(self, *arguments: str) -> None:
        done = subprocess.run([str(self.programs / "jumbot"), *arguments], cwd=self.place)
        if done.returncode:
            sys.exit(f"build: jumbot {' '.join(arguments)} ended with {done.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true", help="run the demo from the wheel; some four minutes")
    demo = parser.parse_args().demo
    source, wheel = find("*.tar.gz"), find("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder))
        environment.install(source)
        environment.jumbot("doctor")
        environment.install(wheel, "--no-deps", "--force-reinstall")
        environment.jumbot("doctor")
        if demo:
            environment.jumbot("demo")
            if not (environment.place / "demo" / "report.html").exists():
                sys.exit("build: the demo ran, but there is no report")


if __name__ == "__main__":
    main()
