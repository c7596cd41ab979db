"""The public surface: what the reference shows, `dir` lists, and a user's type checker knows."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import jumbot

ROOT = Path(__file__).resolve().parent.parent
MODULES = {"jumbot": "jumbot"} | {
    f"jumbot.{name}": module
    for name, module in {
        "bounds": "jumbot.minibatch.bounds",
        "data": "jumbot.data",
        "methods": "jumbot.methods",
        "report": "jumbot.report",
    }.items()
}
NAMES = [f"{public}.{name}" for public, module in MODULES.items() for name in import_module(module).__all__]
CALLS = {
    "jumbot.solve(np.ones((2, 2)), epsilon=0.1)": "Solution",
    "jumbot.solve(np.ones((2, 2)), epsilon=0.1).plan": "ndarray",
    "jumbot.solve(torch.ones(2, 2), epsilon=0.1, tau=1.0).value": "Tensor",
    "jumbot.solve_sample(np.ones((2, 2)), np.ones((2, 2)), epsilon=0.1)": "SampleSolution",
    "jumbot.solve_sample(torch.ones(2, 2), torch.ones(2, 2), epsilon=0.1).barycentric_map()": "Tensor",
    "jumbot.certify(np.ones((2, 2)), plan=np.ones((2, 2)), epsilon=0.1)": "Certificate",
    "jumbot.sinkhorn_divergence(torch.ones(2, 2), torch.ones(2, 2), epsilon=0.1)": "Tensor",
    "jumbot.estimate(np.ones((9, 2)), np.ones((9, 2)), m=3, k=5, epsilon=0.1)": "Estimate",
    "jumbot.estimate(np.ones((9, 2)), np.ones((9, 2)), m=[3, 4], k=5, epsilon=0.1)": "BiasCurve",
    "jumbot.gradient_flow(np.ones((9, 2)), np.ones((9, 2)), m=3, steps=1, learning_rate=1, epsilon=1)": "Trajectory",
    "jumbot.JointTransportLoss(1.0, 1.0, tau=1.0, epsilon=0.1)(np.ones(1))": "JointLoss",
    "jumbot.couple(torch.ones(2, 2), torch.ones(2, 2))": "tuple[Tensor, Tensor]",
    "jumbot.couple(np.ones((2, 2)), np.ones((2, 2)), 0.1, tau=1.0, cost='euclidean')[0]": "ndarray",
    "jumbot.couple(torch.ones(2, 2), torch.ones(2, 2), return_index=True)[3]": "Tensor",
    "jumbot.couple(torch.ones(2, 2), torch.ones(2, 2), return_mass=True)[2]": "Tensor",
    "jumbot.CoupledLoader([torch.ones(2, 2)], [torch.ones(2, 2)], batch=2, minibatch=1)": "CoupledLoader",
    "jumbot.shift('a', 'b')": "Shift",
    "jumbot.adapt('a', 'b')": "Model",
    "jumbot.adapt('a', 'b', tau=0.5, steps=9, hidden=[8], label='y', report=False)": "Model",
    "jumbot.adapt('a', 'b', reading={'label': 'y'}, dates=True)": "Model",
    "jumbot.load('run')": "Model",
    "jumbot.tune('a', 'b')": "Tuned",
    "jumbot.tune('a', 'b', steps=9, backbone='resnet50', seed=1)": "Tuned",
    "jumbot.DomainAdaptationClassifier().fit([[0]], [0])": "DomainAdaptationClassifier",
    "jumbot.bounds.mass_bound(1.0, epsilon=0.1, tau=1.0)": "float",
    "jumbot.data.load('usps')": "Domain",
    "jumbot.methods.method_class('jumbot')": "type[Method]",
    "jumbot.report.read_run('run')": "RunRecord",
}
WRONG = {
    "jumbot.slove": "has no attribute",
    "jumbot.adapt('a', 'b', taau=0.5)": 'keyword argument "taau"',
    "jumbot.adapt('a', 'b', tau='small')": 'Argument "tau"',
    "jumbot.tune('a', 'b', tau=0.5)": 'keyword argument "tau"',
}
"""What a type checker refuses, and a part of what it says."""


@pytest.mark.parametrize("public", MODULES)
def test_dir_lists_the_public_names(public: str) -> None:
    module = import_module(MODULES[public])
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_that_name'"):
        module.nothing_of_that_name  # noqa: B018


@pytest.mark.parametrize("public", MODULES)
def test_dir_lists_nothing_else(public: str) -> None:
    module = import_module(MODULES[public])
    assert [name for name in dir(module) if not name.startswith("__")] == module.__all__


def test_each_public_name_stands_in_the_reference() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"auto(?:function|class|exception|data|module):: (\S+)", page))
    for module, members in re.findall(r"automodule:: (\S+)\n\s+:members: ([\w,\s]+)", page):
        documented |= {f"{module}.{name.strip()}" for name in members.split(",")}
    assert set(NAMES) - documented == {f"jumbot.{name}" for name in ("data", "methods", "report")}


def test_types(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """The package has no error of types, no public name of type Any; a user's misspelt names and options are errors.

    `make lint` runs mypy on the package alone; here both are one run, so that `make test` needs no other.
    """
    assert (Path(jumbot.__file__).parent / "py.typed").exists()
    shown = [*NAMES, *CALLS]
    lines = [
        "import jumbot",
        "import numpy as np",
        "import torch",
        *(f"reveal_type({each})" for each in shown),
        *WRONG,
    ]
    script = tmp_path / "script.py"
    script.write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "src/jumbot", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    of_package = [line for line in done.stdout.splitlines() if line.startswith("src")]
    if not pytestconfig.getoption("pythonwarnings"):  # -W comes with other versions of dependencies
        assert not of_package, "\n".join(of_package)
    revealed = re.findall(r'script\.py:(\d+): note: Revealed type is "(.*)"', done.stdout)
    types = {shown[int(number) - 4]: kind for number, kind in revealed}
    assert set(types) == set(shown), done.stdout + done.stderr
    untyped = {name for name, kind in types.items() if kind == "Any" or kind.endswith("-> Any")}
    assert not untyped
    for call, kind in CALLS.items():
        found = re.sub(r"(\w+\.)+", "", types[call])  # without the modules
        assert re.fullmatch(rf"{re.escape(kind)}(\[.*\])?", found), (call, found)
    errors = re.findall(r"script\.py:(\d+): error: (.*)", done.stdout)
    assert [lines[int(number) - 1] for number, _ in errors] == list(WRONG), done.stdout
    for (_, message), part in zip(errors, WRONG.values(), strict=True):
        assert part in message
