"""Crops and flips against torchvision's own, where it is installed, and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from jumbot.data._augment import CentreCrop, Chain, RandomCrop, RandomFlip, RandomResizedCrop, TenCrop, make_transform
from jumbot.data._domain import ArraySamples, Domain
from jumbot.data._images import resize
from jumbot.data._inputs import InputFormat
from jumbot.errors import MissingPackageError
from tests.refusals import refused


@pytest.fixture
def images(rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(rng.random((3, 3, 40, 33), dtype=np.float32))


@pytest.fixture
def functional():
    from jumbot.data._torchvision import import_torchvision

    try:
        import_torchvision()
    except MissingPackageError as error:
        pytest.skip(str(error))
    import torchvision.transforms.functional as functional

    return functional


@pytest.mark.parametrize("size", [32, 25, 33])
def test_fixed_crops_are_torchvisions(images, functional, size):
    assert torch.equal(CentreCrop(size)(images), functional.center_crop(images, [size, size]))
    assert torch.equal(TenCrop(size)(images), torch.stack(functional.ten_crop(images, [size, size]), 1))


def test_resized_crops_are_torchvisions(images, functional):
    """The drawn part, resized as torchvision resizes tensors."""
    crop = RandomResizedCrop(16)
    got = crop(images, np.random.default_rng(5))
    again = np.random.default_rng(5)
    for image, part in zip(images, got, strict=True):
        box = crop.draw(40, 33, again)
        want = functional.resized_crop(image, *box, [16, 16], antialias=True)
        torch.testing.assert_close(part, want, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        resize(images, (24, 24)), functional.resize(images, [24, 24], antialias=True), atol=1e-6, rtol=0
    )


def test_drawn_parts_have_torchvisions_law(functional):
    """Mean and spread of area and aspect of 4,000 parts of a 256x256 image, beside torchvision's own draws."""
    from torchvision.transforms import RandomResizedCrop as Theirs

    rng, image = np.random.default_rng(0), torch.zeros(3, 256, 256)
    ours = np.array([RandomResizedCrop(224).draw(256, 256, rng) for _ in range(4000)], float)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = np.array([Theirs.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(4000)], float)
    for fact in (lambda p: p[:, 2] * p[:, 3] / 256**2, lambda p: np.log(p[:, 3] / p[:, 2]), lambda p: p[:, 0]):
        a, b = fact(ours), fact(theirs)
        assert abs(a.mean() - b.mean()) < 5 * np.hypot(a.std(), b.std()) / np.sqrt(4000)
        assert abs(a.std() / b.std() - 1) < 0.08


def test_parts_of_narrow_images_fall_back_to_the_middle():
    top, left, height, width = RandomResizedCrop(8).draw(10, 400, np.random.default_rng(0))
    assert (top, height) == (0, 10)
    assert width == round(10 * 4 / 3)
    assert left == (400 - width) // 2


def test_random_crops_are_parts_drawn_from_the_generator(images):
    crop = RandomCrop(20)
    once, twice = (crop(images, np.random.default_rng(3)) for _ in range(2))
    assert torch.equal(once, twice)
    assert not torch.equal(once, crop(images, np.random.default_rng(4)))
    for image, part in zip(images, once, strict=True):
        windows = image.unfold(1, 20, 1).unfold(2, 20, 1)
        assert (windows == part[:, None, None]).all(-1).all(-1).all(0).any()


def test_random_crop_reaches_every_place():
    image = torch.arange(9.0).view(1, 1, 3, 3).expand(200, -1, -1, -1)
    corners = RandomCrop(2)(image, np.random.default_rng(0))[:, 0, 0, 0]
    assert corners.unique().tolist() == [0, 1, 3, 4]


def test_flips_half_of_the_images():
    images = torch.arange(4.0).view(1, 1, 1, 4).expand(400, -1, -1, -1)
    flipped = RandomFlip()(images, np.random.default_rng(0))[:, 0, 0, 0] == 3
    assert 150 < flipped.sum() < 250


def test_ten_views_through_the_input_format(rng):
    """(b, 10, 3, h, w), scaled channel by channel."""
    raw = Domain("d", ArraySamples(rng.integers(256, size=(2, 12, 12, 3), dtype=np.uint8)))
    format = InputFormat("image", size=(8, 8), channels=3, pixels="imagenet")
    whole = format.apply(raw).samples.batch(np.arange(2))
    views = format.apply(raw, TenCrop(6)).samples.batch(np.arange(2))
    assert views.shape == (2, 10, 3, 6, 6)
    torch.testing.assert_close(views[:, 3], whole[:, :, 2:, 2:])
    grey = InputFormat("image", size=(8, 8), channels=1).apply(raw, TenCrop(6)).samples.batch(np.arange(2))
    assert grey.shape == (2, 10, 1, 6, 6)


@pytest.mark.parametrize("augment", ["none", "crop", "resized-crop"])
@pytest.mark.parametrize("views", ["whole", "centre-crop", "ten-crop"])
def test_transforms_of_the_recipes(rng, images, augment, views):
    """Training and evaluation images have one size; evaluation does not depend on the augmentation."""
    transform = make_transform(augment, views, size=30)
    assert transform(images, rng).shape == (3, 3, 30, 30)
    want = {"whole": resize(images, (30, 30)), "centre-crop": CentreCrop(30)(images), "ten-crop": TenCrop(30)(images)}
    assert torch.equal(transform(images, None), want[views])


def test_unknown_transforms():
    with refused("augment"):
        make_transform("mixup", "whole")
    with refused("views"):
        make_transform("crop", "five")


def test_too_large_a_crop(images):
    for transform in (CentreCrop(34), RandomCrop(34), TenCrop(34)):
        with refused("34.*40x33"):
            transform(images, np.random.default_rng(0))


def test_value_types():
    assert RandomResizedCrop(224) == RandomResizedCrop(224)
    assert repr(Chain((RandomCrop(3), RandomFlip()))) == "Chain(transforms=(RandomCrop(size=3), RandomFlip()))"
