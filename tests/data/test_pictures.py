"""Folders of domains, files and PIL images: each thing is read as what it is, or asked about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, Subset, random_split

from jumbot.data import as_domain, load_folder, prepare
from jumbot.data._arrays import one_picture
from jumbot.data._benchmarks import keep_classes
from jumbot.data._content import content_keys
from jumbot.data._sources import read_domains
from tests.refusals import refused


def _picture(shade: int, size: tuple[int, int] = (9, 7), mode: str = "RGB") -> Image.Image:
    return Image.new(mode, size, shade if mode == "L" else (shade, 0, 255 - shade))


@pytest.fixture
def multi(tmp_path: Path) -> Path:
    for camera in ("camA", "camB"):
        for kind in ("mug", "pen"):
            (tmp_path / "multi" / camera / kind).mkdir(parents=True)
            _picture(50).save(tmp_path / "multi" / camera / kind / "1.png")
    return tmp_path / "multi"


def test_a_folder_of_domains_is_asked_about(multi: Path) -> None:
    with refused(r"\(camA, camB\).*--domain"):
        as_domain(multi)
    for one in (as_domain(multi / "camA"), as_domain(multi, domain="camA"), as_domain(f"{multi}:camA")):
        assert (one.name, one.classes) == ("camA", ("mug", "pen"))
    assert as_domain(multi, domain="none").classes == ("camA", "camB")
    with refused("domain"):
        as_domain(f"{multi}:camC")


def test_classes_with_folders_of_their_own_are_classes(tmp_path: Path) -> None:
    for place in ("mug/2019", "mug/2020", "pen/close", "pen/far"):
        (tmp_path / place).mkdir(parents=True)
        _picture(50).save(tmp_path / place / "1.png")
    assert load_folder(tmp_path).classes == ("mug", "pen")


def test_a_domain_for_data_without_domains_is_refused() -> None:
    with refused("domain"):
        as_domain(np.zeros((2, 3)), domain="camA")


def test_lists_of_files(multi: Path) -> None:
    files = [multi / "camA" / "pen" / "1.png", multi / "camB" / "mug" / "1.png"]
    domain = as_domain(files)
    assert (len(domain), domain.labels, domain.shape, domain.ids) == (2, None, (3, 7, 9), [str(f) for f in files])
    assert as_domain(tuple(files)).ids == domain.ids
    assert as_domain((files, ["pen", "mug"])).labels.tolist() == [1, 0]
    assert as_domain(files[0]).ids == [str(files[0])]
    assert as_domain(str(files[0])).shape == (3, 7, 9)
    source, target, _ = read_domains((files, ["pen", "mug"]), [str(f) for f in files])
    prepare(source, target)
    with refused(r"1.*2.*absent\.png"):
        as_domain([str(files[0]), "absent.png"])
    (multi / "notes.csv").write_text("a\n1\n")
    with refused(r"notes\.csv"):
        as_domain([multi / "notes.csv", files[0]])


def test_pil_images_of_different_sizes() -> None:
    images = [_picture(10), _picture(200, (30, 20)), _picture(90, mode="L")]
    domain = as_domain(images, ["a", "b", "a"])
    assert (domain.samples.size, domain.samples.channels, len(as_domain(images[0]))) == (None, 3, 1)
    a, _, format = prepare(domain, as_domain(images[:2]), 8, pixels="unit")
    assert format.shape == (3, 8, 8)
    np.testing.assert_allclose(a.samples.batch(np.array([1]))[0, :, 4, 4], [200 / 255, 0, 55 / 255], atol=1e-6)
    assert as_domain([images[2]]).shape == (1, 7, 9)
    assert keep_classes(a, ["b"]).samples.batch(np.array([0])).shape == (1, 3, 8, 8)
    assert len(np.unique(content_keys(as_domain([*images, images[0].copy()]).samples))) == 3


class _Pictures(Dataset):
    """As torchvision's ImageFolder without a transform: pictures of different sizes, names of classes."""

    classes = ("mug", "pen", "cup")
    targets = (2, 0, 2, 1)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return _picture(10 * index, (8 + index, 6)), self.targets[index]


def test_datasets_of_pictures_of_different_sizes() -> None:
    domain = as_domain(_Pictures())
    assert (domain.samples.size, domain.classes) == (None, ("cup", "mug", "pen"))
    a, _, _ = prepare(domain, domain, 6)
    assert a.samples.batch(np.arange(4)).shape == (4, 3, 6, 6)


def test_a_subset_keeps_the_names_of_its_classes() -> None:
    part = Subset(_Pictures(), [3, 0])
    assert (as_domain(part).classes, as_domain(part).labels.tolist()) == (("cup", "pen"), [1, 0])
    assert as_domain(Subset(part, [1])).classes == ("cup",)
    for split in random_split(_Pictures(), [2, 2], torch.Generator().manual_seed(0)):
        assert {*as_domain(split).classes} <= {"cup", "mug", "pen"}

    class Unlisted(_Pictures):
        targets = None

        def __getitem__(self, index: int) -> tuple[Image.Image, int]:
            return _picture(3), _Pictures.targets[index]

    assert as_domain(Subset(Unlisted(), [1, 3])).classes == ("mug", "pen")


@pytest.mark.parametrize("shape", [(256, 256, 3), (28, 28, 1), (5, 9, 3)])
def test_one_picture_is_no_data_set(shape: tuple[int, ...]) -> None:
    with refused("mine"):
        as_domain(np.zeros(shape, np.uint8), name="mine")
    assert one_picture(np.zeros(shape), 3).shape == (1, *shape)


def test_arrays_that_may_be_one_picture() -> None:
    assert one_picture(torch.zeros(28, 28), 1).shape == (1, 28, 28)
    assert one_picture(np.zeros((3, 28, 28)), 1).shape == (3, 28, 28)
    assert one_picture(np.zeros((4, 28, 28, 3)), 3).shape == (4, 28, 28, 3)
    with refused(r"\b3\b"):
        one_picture(torch.zeros(3, 28, 28), 3)


def test_items_that_differ_in_shape() -> None:
    with refused("shape"):
        as_domain([np.zeros(3), np.zeros(4)])


def test_a_picture_in_memory_that_cannot_be_read_is_named() -> None:
    wide = [Image.fromarray(np.full((4, 5), value, np.int32)) for value in (1000, 70_000)]
    with refused("data"):
        as_domain(wide).samples.batch(np.arange(2))
