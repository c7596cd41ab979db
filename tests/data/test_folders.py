"""Folders and lists of images, with the files that real ones contain."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jumbot._settings.reading import Reading
from jumbot.data import as_domain, from_list, load_folder, prepare
from jumbot.data._content import domain_hash
from jumbot.data._images import decode
from jumbot.data._sources import read_domains
from tests.refusals import refused


def _save(path: Path, size: tuple[int, int] = (12, 10), mode: str = "RGB", colour=(200, 30, 90)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).convert(mode).save(path)
    return path


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for kind in ("cat", "dog"):
        for i in range(3):
            _save(tmp_path / "pets" / kind / f"{i}.jpg")
    _save(tmp_path / "pets" / "cat" / "deeper" / "down" / "3.PNG")
    return tmp_path / "pets"


def test_classes_are_the_first_folders(pets: Path) -> None:
    (pets / "cat" / ".hidden.jpg").write_bytes(b"no image")
    (pets / ".thumbnails").mkdir()
    _save(pets / ".thumbnails" / "0.jpg")
    (pets / "__MACOSX").mkdir()
    _save(pets / "__MACOSX" / "0.jpg")
    (pets / "readme.txt").write_text("not an image")
    domain = as_domain(pets)
    assert (domain.name, domain.classes) == ("pets", ("cat", "dog"))
    assert list(domain.ids) == [
        "cat/0.jpg",
        "cat/1.jpg",
        "cat/2.jpg",
        "cat/deeper/down/3.PNG",
        "dog/0.jpg",
        "dog/1.jpg",
        "dog/2.jpg",
    ]
    assert domain.labels.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert domain.shape == (3, 10, 12)


def test_flat_folder_has_no_labels(tmp_path: Path, pets: Path) -> None:
    for i in range(2):
        _save(tmp_path / "new" / f"{i}.png", (300 + i, 200))
    target = as_domain(tmp_path / "new")
    assert target.labels is None
    source, matched, format = prepare(as_domain(pets), target)
    assert format.size == (224, 224)
    assert source.shape == matched.shape == (3, 224, 224)
    assert matched.samples.batch(np.array([1])).shape == (1, 3, 224, 224)


def test_nested_target_whose_folders_are_no_classes(tmp_path: Path, pets: Path) -> None:
    for year in ("2020", "2021"):
        _save(tmp_path / "new" / year / "a.jpg")
    with pytest.warns(UserWarning, match=r"new:.*\b2020\b"):
        _, target, _ = prepare(as_domain(pets), as_domain(tmp_path / "new"), 8)
    assert target.labels is None
    assert len(target) == 2


def test_files_next_to_class_folders_have_no_label(pets: Path) -> None:
    _save(pets / "lost.jpg")
    domain = as_domain(pets)
    assert domain.labels[list(domain.ids).index("lost.jpg")] == -1
    with refused(r"1.*8.*lost\.jpg"):
        prepare(domain, domain)


def test_values_survive_decoding_and_subsets(tmp_path: Path) -> None:
    for i in range(4):
        _save(tmp_path / f"{i}.png", colour=(10 * i, 100, 255))
    domain = as_domain(tmp_path).subset([3, 1])
    batch = domain.samples.batch(np.arange(2))
    np.testing.assert_allclose(batch[:, :, 5, 5] * 255, [[30, 100, 255], [10, 100, 255]], atol=1e-3)
    assert list(domain.ids) == ["3.png", "1.png"]


def _truncated(path: Path, of: Path) -> None:
    data = of.read_bytes()
    path.write_bytes(data[: len(data) // 2])


@pytest.fixture
def corrupted(tmp_path: Path, rng: np.random.Generator) -> Path:
    folder = tmp_path / "broken"
    noise = Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
    for kind in ("a", "b"):
        (folder / kind).mkdir(parents=True)
        for ending in ("jpg", "png", "bmp"):
            noise.save(folder / kind / f"whole.{ending}")
            if kind == "a":
                _truncated(folder / kind / f"cut.{ending}", folder / kind / f"whole.{ending}")
    (folder / "a" / "empty.jpg").touch()
    (folder / "a" / "page.jpg").write_text("<html>404</html>")
    return folder


def test_corrupt_files_are_refused_by_name(corrupted: Path) -> None:
    with refused(r"5.*11.*read: a/cut\.bmp.*a/page\.jpg") as error:
        load_folder(corrupted)
    assert "corrupt='skip'" in str(error.value)


def test_corrupt_files_are_skipped_by_option(corrupted: Path) -> None:
    with pytest.warns(UserWarning, match="5 of 11"):
        domain = load_folder(corrupted, corrupt="skip")
    assert len(domain) == 6
    assert domain.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert domain.samples.batch(np.arange(6)).shape == (6, 3, 64, 64)


def test_a_file_that_breaks_later_is_named(pets: Path) -> None:
    domain = as_domain(pets)
    (pets / "dog" / "1.jpg").write_bytes(b"gone")
    with refused(r"dog/1\.jpg:"):
        domain.samples.batch(np.arange(7))


def test_folders_without_images(tmp_path: Path) -> None:
    with refused(r"\.jpg"):
        as_domain(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "notes.txt").touch()
    with refused(r"\.jpg"):
        as_domain(tmp_path)
    with refused("none:"):
        load_folder(tmp_path / "none")
    _save(tmp_path / "x.jpg")
    with refused("corrupt"):
        load_folder(tmp_path, corrupt="maybe")


def test_pictures_of_formats_that_are_not_read_are_named(pets: Path) -> None:
    (pets / "fox").mkdir()
    (pets / "fox" / "1.HEIC").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"1.*\(fox/1.HEIC\)"):
        assert "fox" not in load_folder(pets).classes


def test_a_stray_picture_does_not_make_classes_of_domains(tmp_path: Path) -> None:
    for camera in ("train", "val"):
        for kind in ("cat", "dog"):
            for i in range(3):
                _save(tmp_path / camera / kind / f"{i}.png")
    _save(tmp_path / "train" / "preview.png")
    with refused(r"\(train, val\)"):
        load_folder(tmp_path)


def test_one_class_only(pets: Path) -> None:
    with refused(r"\(pets\)"):
        prepare(as_domain(pets.parent), as_domain(pets))


def test_linked_folders_are_followed_once(pets: Path) -> None:
    os.symlink(pets, pets / "dog" / "loop")
    assert len(as_domain(pets)) == 7


def test_exif_orientation(tmp_path: Path) -> None:
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, :8] = 255
    exif = Image.Exif()
    exif[274] = 6  # to be turned by 90 degrees clockwise: left becomes top
    Image.fromarray(pixels).save(tmp_path / "turned.jpg", exif=exif, quality=95)
    domain = as_domain(tmp_path)
    assert domain.shape == (3, 16, 8)
    image = domain.samples.batch(np.array([0]))[0]
    assert image[:, :6].min() > 0.9
    assert image[:, 10:].max() < 0.1


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "RGBA", "LA", "I;16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_modes(tmp_path: Path, mode: str, channels: int) -> None:
    path = tmp_path / ("x.tif" if mode == "CMYK" else "x.png")
    if mode == "I;16":
        Image.fromarray(np.full((4, 5), 204 * 257, np.uint16)).save(path)
    else:
        Image.new("L", (5, 4), 204 if mode != "1" else 255).convert("RGB").convert(mode).save(path)
    array = decode(path, channels=channels)
    assert array.shape == (4, 5, channels)
    np.testing.assert_allclose(array, 255 if mode == "1" else 204, atol=1)


@pytest.mark.parametrize(
    ("pixels", "grey"),
    [
        (np.full((4, 5), 0.8, np.float32), 204),
        (np.full((4, 5), 204.0, np.float32), 204),
        (np.full((4, 5), 204 * 257, np.int32), 204),
        (np.full((4, 5), 66_000, np.int32), None),
        (np.full((4, 5), -1, np.int32), None),
        (np.full((4, 5), np.nan, np.float32), None),
    ],
)
def test_wide_pixels_are_scaled_or_refused(tmp_path: Path, pixels: np.ndarray, grey: int | None) -> None:
    Image.fromarray(pixels).save(tmp_path / "1.tif")
    if grey is None:
        with refused(r"1\.tif \(.* pixels outside 0 \.\.\. (255|65535)\)"):
            load_folder(tmp_path)
    else:
        assert (decode(tmp_path / "1.tif") == grey).all()


def _colours_of_16_bits(path: Path, value: int) -> None:
    """A PNG that PIL reads and cannot write."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = (b"\0" + np.full((5, 3), value, ">u2").tobytes()) * 4
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 5, 4, 16, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (
            (4000, 0),
            "up to 4000, although 65535 is white: almost black. If they have 12 bits, multiply the values by 16",
        ),
        ((900, 0), "If they have 10 bits, multiply the values by 64 and save them again, for predictions too"),
        ((60_000, 300), None),
        ((200, 100), None),  # bytes in files of 16 bits
        ((60_000, 100), "up to 100, read with 255 as white, and others up to 60000, read with 65535 as white"),
        (
            (200.0, 0.5),
            "up to 0.5, read with 1 as white, and others up to 200, read with 255 as white; save all",
        ),
        (
            "colours",
            "16-bit images with values up to 4095, although 65535 is white: almost black. If they have 12 bits",
        ),
    ],
)
def test_a_white_that_may_be_another_is_named(tmp_path: Path, pets: Path, values, match: str | None) -> None:
    (tmp_path / "wide").mkdir()
    if values == "colours":
        _colours_of_16_bits(tmp_path / "wide" / "1.png", 4000)
    else:
        for i, value in enumerate(values):
            kind = np.uint16 if isinstance(value, int) else np.float32
            Image.fromarray(np.full((4, 5), value, kind)).save(tmp_path / "wide" / f"{i}.tif")
    source, target = as_domain(pets), as_domain(tmp_path / "wide")
    if match is None:
        prepare(source, target)
    else:
        with pytest.warns(UserWarning, match=f"wide:.*{match}"):
            *_, format = prepare(source, target)
        with pytest.warns(UserWarning, match=f"wide:.*{match}"):
            format.apply(target)


def test_transparent_is_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "a.png")
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([0, 0, 0] * 256)
    palette.save(tmp_path / "b.png", transparency=0)
    assert decode(tmp_path / "a.png").min() == decode(tmp_path / "b.png").min() == 255


def test_grey_and_colour_files_mixed(tmp_path: Path) -> None:
    _save(tmp_path / "a" / "grey.png", mode="L")
    assert as_domain(tmp_path).samples.channels == 1
    _save(tmp_path / "b" / "colour.png")
    domain = as_domain(tmp_path)
    assert domain.samples.channels == 3
    array_target = as_domain(np.zeros((2, 28, 28), np.uint8))
    source, target, format = prepare(domain, array_target)
    assert format.shape == source.shape == target.shape == (3, 28, 28)


def test_large_jpeg_is_resized_as_if_whole(tmp_path: Path) -> None:
    y, x = np.mgrid[:900, :1200]
    smooth = (127 + 100 * np.sin(x / 150) * np.cos(y / 150)).astype(np.uint8)
    Image.fromarray(smooth).save(tmp_path / "x.jpg", quality=95)
    whole = np.asarray(Image.open(tmp_path / "x.jpg").resize((64, 64), Image.Resampling.BILINEAR), float)
    assert np.abs(decode(tmp_path / "x.jpg", (64, 64), 1)[:, :, 0] - whole).max() <= 4


def test_lists(pets: Path) -> None:
    _save(pets / "with space" / "x y.jpg")
    (pets / "list.txt").write_text("# comment\ncat/0.jpg 3\n\ndog/1.jpg 10\nwith space/x y.jpg 3\ndog/2.jpg\n")
    domain = from_list(pets / "list.txt")
    assert domain.classes == ("3", "10")
    assert domain.labels.tolist() == [0, 1, 0, -1]
    assert list(domain.ids)[2] == "with space/x y.jpg"
    assert len(as_domain(pets / "list.txt")) == 4
    moved = pets.parent / "lists" / "list.txt"
    moved.parent.mkdir()
    moved.write_text("cat/0.jpg 0\ncat/9.jpg 0\n")
    with refused(r"2:.*cat/9\.jpg"):
        from_list(moved, pets)
    moved.write_text("\n")
    with refused("lists no images"):
        from_list(moved, pets)


def test_photographs_of_office_caltech() -> None:
    folder = Path(os.environ.get("JUMBOT_DATA", "")) / "office_caltech10" / "images"
    if not os.environ.get("JUMBOT_DATA") or not folder.is_dir():
        pytest.skip("JUMBOT_DATA names no folder with office_caltech10/images")
    source, target, format = prepare(as_domain(folder / "webcam"), as_domain(folder / "dslr"), 64, pixels="imagenet")
    assert (len(source), len(target), format.shape, len(source.classes)) == (295, 157, (3, 64, 64), 10)
    batch = source.samples.batch(np.arange(0, 295, 10))
    assert batch.shape == (30, 3, 64, 64)
    assert abs(float(batch.mean())) < 3


def test_folders_of_domains_as_several_sources(tmp_path: Path) -> None:
    for camera in ("camA", "camB"):
        for kind in ("mug", "pen"):
            _save(tmp_path / camera / kind / "1.png")
    found = as_domain(tmp_path, domain="all")
    assert found.sources == ("camA", "camB")
    assert found.origins is not None
    assert found.origins.tolist() == [0, 0, 1, 1]
    assert found.classes == ("mug", "pen")
    assert list(found.ids or ()) == ["camA/mug/1.png", "camA/pen/1.png", "camB/mug/1.png", "camB/pen/1.png"]
    with refused("labels"):
        as_domain(tmp_path / "camA", domain="all")
    for inside in ("camB", "camB/mug"):
        with refused("target"):
            read_domains(tmp_path, tmp_path / inside, reading=Reading(domain="all"))


def test_several_folders_of_domains_are_all_of_their_sources(tmp_path: Path) -> None:
    """Also two that have a camera of the same name, and pictures of different sizes."""
    for place, camera, size in (("shop", "camA", 8), ("shop", "camB", 9), ("home", "camA", 10), ("home", "camC", 11)):
        for kind in ("mug", "pen"):
            _save(tmp_path / place / camera / kind / "1.png", (size, size))
    places = [tmp_path / "shop", tmp_path / "home"]
    source, target, _ = read_domains(places, tmp_path / "shop" / "camA", reading=Reading(domain="all"))
    assert source.sources == ("camA 1", "camB", "camA 3", "camC")
    assert source.origins is not None
    assert source.origins.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    made, _, form = prepare(source, target)
    assert form.size == (11, 11)
    assert made.samples.batch(np.arange(8)).shape == (8, 3, 11, 11)
    assert len(domain_hash(source) or "") == 40
