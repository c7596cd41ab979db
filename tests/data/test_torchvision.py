"""torchvision and timm import where a plain `import` fails, and errors say what to install.

Each piece of code has a process of its own: imports and operators of torch cannot be undone. A generated package that
asks torch for the same operators stands in for a torchvision that does not fit, so that this is tested on every
machine.
"""

from __future__ import annotations

import importlib.util
from subprocess import CompletedProcess

import pytest

from tests.processes import run_apart

IMPORT = "from jumbot.data._torchvision import import_timm, import_torchvision\n"

UNLOADABLE = """
import torch
from . import extension
torch.library.register_fake("torchvision::nms")(lambda dets, scores, iou_threshold: dets)
torch.library.register_fake("torchvision::qnms")(lambda dets, scores, iou_threshold: dets)
from . import models
"""

real = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs the extra 'vision'")


WORKING = "works = True"
UNLIKE = "raise RuntimeError('compiled with different CUDA versions')"
REPAIRED = [("", "import_torchvision"), ("torchvision", "import_timm"), ("timm", "import_timm")]


def repair(before: str, call: str) -> str:
    attempt = f"try:\n    import {before}\nexcept RuntimeError as error:\n    print(error)\n" if before else ""
    code = attempt + f"{call}()\nimport gc, torch, timm; gc.collect(); {call}()\n"
    return code + "print(timm.first.__name__, torch.ops.torchvision.nms.default._schema)"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompletedProcess[str]]:
    """What each piece of code says beside a torchvision that fails as one built for another torch does, or is another,
    and a timm that imports it."""
    codes = {}

    def add_case(torchvision: str, name: str, code: str) -> None:
        place = tmp_path_factory.mktemp("packages")
        for package, files in {
            "torchvision": {"__init__": torchvision, "extension": "", "models": "made = True"},
            "timm": {"__init__": "from . import first\nimport torchvision.models", "first": "import torchvision"},
        }.items():
            (place / package).mkdir()
            for file, text in files.items():
                (place / package / f"{file}.py").write_text(text)
        codes[name] = f"import sys; sys.path.insert(0, {str(place)!r})\n{IMPORT}{code}"

    for before, call in REPAIRED:
        add_case(UNLOADABLE, f"{before} {call}", repair(before, call))
    add_case(
        WORKING, "working", "import torch; print(import_torchvision().works, hasattr(torch.ops.torchvision, 'nms'))"
    )
    add_case(UNLOADABLE, "absent", "sys.modules['torchvision'] = None\nimport_torchvision()")
    add_case(UNLIKE, "unlike", "import_timm()")
    return run_apart(codes, flags=("-W", "error"))


@pytest.mark.parametrize(("before", "call"), REPAIRED)
def test_repair(runs: dict[str, CompletedProcess[str]], before: str, call: str):
    """At once, and after a plain import that failed and left half-imported modules behind.

    torch forgets operators whose Library is collected: they must outlive the call.
    """
    done = runs[f"{before} {call}"]
    *failed, works = done.stdout.strip().splitlines() or [done.stderr]
    assert works == "timm.first torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    assert failed == (["operator torchvision::nms does not exist"] if before else [])


def test_plain_import_comes_first(runs: dict[str, CompletedProcess[str]]):
    assert runs["working"].stdout.strip() == "True False", runs["working"].stderr


def test_not_installed(runs: dict[str, CompletedProcess[str]]):
    last = runs["absent"].stderr.strip().splitlines()[-1]
    assert "torchvision, which is not installed" in last
    assert "pip install 'jumbot[vision]'" in last


def test_other_failures_name_the_versions(runs: dict[str, CompletedProcess[str]]):
    last = runs["unlike"].stderr.strip().splitlines()[-1]
    assert "timm is installed but does not import (compiled with different CUDA versions)" in last
    assert "torch is 2." in last


@real
def test_real_packages():
    code = (
        "import torch; x = torch.zeros(1, 3, 64, 64); print(import_torchvision().models.resnet18()(x).shape)\n"
        "print(import_timm().create_model('resnet10t', num_classes=0)(x).shape)"
    )
    done = run_apart({"": IMPORT + code}, flags=("-W", "error"))[""]
    assert done.stdout.split("\n")[:2] == ["torch.Size([1, 1000])", "torch.Size([1, 512])"], done.stderr
