"""torchvision and timm import where a plain `import` fails, and errors say what to install.

Each test is a process of its own: imports and operators of torch cannot be undone. A generated package that asks torch
for the same operators stands in for a torchvision that does not fit, so that this is tested on every machine.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

BROKEN = """
import torch
from . import extension
torch.library.register_fake("torchvision::nms")(lambda dets, scores, iou_threshold: dets)
torch.library.register_fake("torchvision::qnms")(lambda dets, scores, iou_threshold: dets)
from . import models
"""

real = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs the extra 'vision'")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A torchvision that fails as one built for another torch does, and a timm that imports it."""
    for name, files in {
        "torchvision": {"__init__": BROKEN, "extension": "", "models": "made = True"},
        "timm": {"__init__": "from . import first\nimport torchvision.models", "first": "import torchvision"},
    }.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / f"{file}.py").write_text(text)
    return tmp_path


def run(code: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    paths = f"import sys; sys.path.insert(0, {str(folder)!r})\n" if folder else ""
    code = paths + "from jumbot.data.torchvision import import_timm, import_torchvision\n" + code
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("before", "call"), [("", "import_torchvision"), ("torchvision", "import_timm"), ("timm", "import_timm")]
)
def test_repair(folder: Path, before: str, call: str):
    """At once, and after a plain import that failed and left half-imported modules behind.

    torch forgets operators whose Library is collected: they must outlive the call.
    """
    attempt = f"try:\n    import {before}\nexcept RuntimeError as error:\n    print(error)\n" if before else ""
    code = attempt + f"{call}()\nimport gc, torch, timm; gc.collect(); {call}()\n"
    code += "print(timm.first.__name__, torch.ops.torchvision.nms.default._schema)"
    done = run(code, folder)
    *failed, works = done.stdout.strip().splitlines() or [done.stderr]
    assert works == "timm.first torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    assert failed == (["operator torchvision::nms does not exist"] if before else [])


def test_plain_import_comes_first(folder: Path):
    (folder / "torchvision" / "__init__.py").write_text("works = True")
    done = run("import torch; print(import_torchvision().works, hasattr(torch.ops.torchvision, 'nms'))", folder)
    assert done.stdout.strip() == "True False", done.stderr


def test_not_installed(folder: Path):
    hide = "sys.modules['torchvision'] = None\n"
    done = run("import sys\n" + hide + "import_torchvision()", folder)
    last = done.stderr.strip().splitlines()[-1]
    assert "torchvision, which is not installed" in last
    assert "pip install 'jumbot[vision]'" in last


def test_other_failures_name_the_versions(folder: Path):
    (folder / "torchvision" / "__init__.py").write_text("raise RuntimeError('compiled with different CUDA versions')")
    last = run("import_timm()", folder).stderr.strip().splitlines()[-1]
    assert "timm is installed but does not import (compiled with different CUDA versions)" in last
    assert "torch is 2." in last


@real
def test_real_packages():
    code = (
        "import torch; x = torch.zeros(1, 3, 64, 64); print(import_torchvision().models.resnet18()(x).shape)\n"
        "print(import_timm().create_model('resnet10t', num_classes=0)(x).shape)"
    )
    done = run(code)
    assert done.stdout.split("\n")[:2] == ["torch.Size([1, 1000])", "torch.Size([1, 512])"], done.stderr
