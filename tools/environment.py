"""Create the virtual environment of a make target: python tools/environment.py {demo,test} [--venv] [--dependencies]

"demo" holds jumbot (editable) and what `jumbot demo` needs; "test" adds the tools, the documentation, the peers, and
every extra that installs and imports on this machine.  Both are quick to repeat, and say at least every ten seconds
what they do.  Dependencies are those "tested" together (constraints.txt), the "oldest" that pyproject.toml allows, or
the "newest" that pip finds; torch is the tested one in each.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

import heartbeat
from heartbeat import run

ROOT = Path(__file__).resolve().parents[1]
#: extra, what must import (a module, or a function that must return), the packages to remove again if it does not
OPTIONAL = (
    ("jax", "ott", ["ott-jax"]),
    ("tensorboard", "tensorboard", ["tensorboard"]),
    ("export", "onnxruntime", ["onnx", "onnxscript", "onnxruntime"]),
    ("vision", "jumbot.data._torchvision.import_timm", ["torchvision", "timm"]),
)
CHECK = "import pkgutil, sys; found = pkgutil.resolve_name(sys.argv[1]); callable(found) and found()"
#: a peer whose couplings need torch, NumPy and POT alone, though its package asks for far more
ALONE = "torchcfm==1.0.7"


class Environment:
    """A virtual environment, and pip in it."""

    def __init__(self, folder: Path, dependencies: str) -> None:
        self.folder = folder
        self.python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        if not self.python.exists():
            say(f"virtual environment in {folder}")
            if run("setup", [sys.executable, "-m", "venv", str(folder)]):
                sys.exit(f"setup: {sys.executable} cannot make a virtual environment")
        self.constraints = ROOT / "constraints.txt"
        if dependencies != "tested":
            self.constraints = folder / f"constraints-{dependencies}.txt"
            self.constraints.write_text("\n".join(constraints(dependencies)) + "\n", encoding="utf-8")

    def install(self, what: str, name: str, *arguments: str) -> bool:
        """Whether pip could; its output is in the folder, under that name."""
        say(what)
        pip = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check"]
        return run("setup", [*pip, "--constraint", str(self.constraints), *arguments], self.log(name)) == 0

    def need(self, what: str, name: str, *arguments: str) -> None:
        if not self.install(what, name, *arguments):
            tail = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
            sys.exit("\n".join([*tail, f"setup: pip failed; its whole output is in {self.log(name)}"]))

    def offer(self, extra: str, check: str, packages: list[str], *arguments: str) -> None:
        """Keep what installs and imports here, and take back what does not."""
        probe = [str(self.python), "-W", "ignore", "-c", CHECK, check]
        name = extra
        if self.install(f"extra '{extra}'", extra, *arguments):
            name = f"{extra}-import"
            if run("setup", probe, self.log(name)) == 0:
                return
        run("setup", [str(self.python), "-m", "pip", "uninstall", "--yes", *packages], self.log(f"{extra}-removal"))
        say(f"extra '{extra}' left out, it does not install or import here (see {self.log(name)})")

    def log(self, name: str) -> Path:
        return self.folder / f"setup-{name}.log"


def say(text: str) -> None:
    heartbeat.say(f"setup: {text}")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def constraints(dependencies: str) -> list[str]:
    """The tested torch, and with "oldest" the lower bound of everything else that a user may install."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    chosen = [line for line in lines if line.startswith("torch==")]
    if dependencies == "oldest":
        extras = [
            project()["optional-dependencies"][extra] for extra in ("adapt", "demo", "vision", "tensorboard", "export")
        ]
        bounds = [
            name.partition(",")[0] for group in (project()["dependencies"], *extras) for name in group if ">=" in name
        ]
        chosen += sorted(bound.replace(">=", "==") for bound in bounds if not bound.startswith("torch>="))
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=["demo", "test"])
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    parser.add_argument("--dependencies", choices=["tested", "oldest", "newest"], default="tested")
    options = parser.parse_args()
    environment = Environment(options.venv, options.dependencies)
    if options.target == "demo":
        environment.need("torch", "torch", "torch")  # first, and alone: nothing else may choose its version
        environment.need("jumbot, and what its demo needs", "demo", "--editable", f"{ROOT}[demo]")
        if options.dependencies == "newest":
            environment.need("the newest numba, above its bound too", "numba", "--upgrade", "numba")
    else:
        environment.need("tests, documentation and peers", "test", "--editable", f"{ROOT}[demo,dev,docs,peers]")
        for extra, check, packages in OPTIONAL:
            environment.offer(extra, check, packages, *project()["optional-dependencies"][extra])
        environment.offer("torchcfm", "torchcfm.optimal_transport", ["torchcfm"], "--no-deps", ALONE)
    (options.venv / f".jumbot-{options.target}").touch()


if __name__ == "__main__":
    main()
