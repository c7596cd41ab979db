"""Published benchmarks on tiny generated trees of the same layout."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jumbot.data import _benchmarks as benchmarks
from jumbot.data._benchmarks import BENCHMARKS, keep_classes, load_benchmark, partial_classes
from tests.refusals import refused

image = pytest.importorskip("PIL.Image")


def picture(path: Path, shade: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.new("RGB", (4, 4), (shade, 0, 0)).save(path)


def tree(root: Path, folders: list[str], classes: list[str], each: int = 1) -> Path:
    for folder in folders:
        for kind in classes:
            for number in range(each):
                picture(root / folder / kind / f"{number:05d}.jpg")
    return root


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch):
    """Changes the published counts to those of a tiny tree."""

    def change(name: str, each: int, classes: int, partial: tuple[int, ...] = ()) -> None:
        facts = BENCHMARKS[name]
        parts = tuple(replace(part, images=each * classes) for part in facts.parts)
        monkeypatch.setitem(benchmarks.BENCHMARKS, name, replace(facts, classes=classes, parts=parts, partial=partial))

    return change


def test_published_facts():
    counts = {name: [part.images for part in facts.parts] for name, facts in BENCHMARKS.items()}
    assert counts == {
        "office-home": [2427, 4365, 4439, 4357],
        "visda-2017": [152397, 55388],
        "office-caltech10": [958, 1123, 157, 295],
    }
    assert [facts.classes for facts in BENCHMARKS.values()] == [65, 12, 10]
    assert BENCHMARKS["office-home"].partial == (1089, 1675, 1785, 1811)


@pytest.mark.parametrize("real", ["Real World", "Real_World", "RealWorld"])
def test_office_home(tmp_path, small, real):
    small("office-home", each=2, classes=3)
    root = tree(tmp_path, ["Art", "Clipart", "Product", real], ["Alarm_Clock", "Bed", "TV"], each=2)
    found = load_benchmark("Office-Home", root)
    assert list(found) == ["Art", "Clipart", "Product", "Real World"]
    assert found["Real World"].classes == ("Alarm_Clock", "Bed", "TV")
    assert found["Real World"].counts().tolist() == [2, 2, 2]
    assert list(load_benchmark("office_home", root, ["R", "a"])) == ["Real World", "Art"]


def test_office_home_in_its_archive_folder(tmp_path, small):
    small("office-home", each=1, classes=2)
    tree(tmp_path / "OfficeHomeDataset_10072016", ["Art"], ["Bed", "TV"])
    assert len(load_benchmark("office-home", tmp_path, ["Art"])["Art"]) == 2


def test_office_home_lists(tmp_path, small):
    small("office-home", each=1, classes=2)
    tree(tmp_path, ["Art", "Real_World"], ["Bed", "TV"])
    (tmp_path / "Art.txt").write_text("Art/Bed/00000.jpg 0\nArt/TV/00000.jpg 1\n")
    found = load_benchmark("office-home", tmp_path, ["Art"])["Art"]
    assert found.labels.tolist() == [0, 1]
    assert found.ids[1] == "Art/TV/00000.jpg"


def test_visda_by_folders_and_by_lists(tmp_path, small):
    small("visda-2017", each=2, classes=12)
    kinds = [f"kind{i:02d}" for i in range(12)]
    tree(tmp_path, ["train", "validation"], kinds, each=2)
    by_folders = load_benchmark("visda-2017", tmp_path)
    assert [len(d) for d in by_folders.values()] == [24, 24]
    for part in ("train", "validation"):
        lines = [f"{kind}/{n:05d}.jpg {kinds.index(kind)}" for kind in kinds for n in range(2)]
        (tmp_path / part / "image_list.txt").write_text("\n".join(lines) + "\n")
    by_lists = load_benchmark("visda-2017", tmp_path)
    assert by_lists["train"].classes == tuple(str(i) for i in range(12))
    assert by_lists["train"].labels.tolist() == by_folders["train"].labels.tolist()


def test_office_caltech_photographs_and_features(tmp_path, small, rng):
    small("office-caltech10", each=1, classes=2)
    photographs = tree(tmp_path / "photographs", ["amazon", "caltech", "dslr", "webcam/images"], ["bike", "mug"])
    assert [len(d) for d in load_benchmark("office-caltech10", photographs).values()] == [2, 2, 2, 2]
    features = rng.standard_normal((8, 5)).astype(np.float16)
    domain = np.repeat(["webcam", "amazon", "dslr", "caltech10"], 2)
    np.savez(tmp_path / "features.npz", features=features, label=np.array(["mug", "bike"] * 4), domain=domain)
    for root in (tmp_path, tmp_path / "features.npz"):
        found = load_benchmark("office-caltech10", root)
        assert found["amazon"].classes == ("bike", "mug")
        assert found["amazon"].labels.tolist() == [1, 0]
        np.testing.assert_array_equal(found["amazon"].samples.batch(np.arange(2)).numpy(), features[2:4])


def test_missing_domains_say_what_and_where(tmp_path):
    tree(tmp_path, ["Art", "notes"], ["Bed"])
    with refused(r"Clipart/ \(4,365 images\)"):
        load_benchmark("office-home", tmp_path)
    with refused("VisDA-2017:.*VisDA-2017"):
        load_benchmark("visda-2017", tmp_path / "nowhere")
    with refused(r"Art.*\b1\b.*\b65\b"):
        load_benchmark("office-home", tmp_path, ["Art"])


def test_unknown_names(tmp_path):
    with refused(r"'office-home'\?"):
        load_benchmark("ofice-home", tmp_path)
    with refused("'Sketch'"):
        load_benchmark("office-home", tmp_path, ["Sketch"])
    (tmp_path / "features.npz").write_bytes(b"")
    np.savez(tmp_path / "features.npz", features=np.zeros((1, 2)))
    with refused("'label'"):
        load_benchmark("office-caltech10", tmp_path)


def test_other_counts_warn(tmp_path, small):
    small("office-home", each=3, classes=2)
    tree(tmp_path, ["Art"], ["Bed", "TV"], each=2)
    with pytest.warns(UserWarning, match=r"Art.*\b4\b.*\b6\b"):
        load_benchmark("office-home", tmp_path, ["Art"])


def test_partial_office_home(tmp_path, small):
    """The first 25 of the sorted classes, the head's 30 kept; the published count of that part is checked."""
    kinds = [f"kind{i:02d}" for i in range(30)]
    tree(tmp_path, ["Art"], kinds)
    small("office-home", each=1, classes=30, partial=(25, 25, 25, 25))
    art = load_benchmark("office-home", tmp_path, ["Art"], partial="first:25")["Art"]
    assert len(art) == 25
    assert len(art.classes) == 30
    assert art.counts().tolist() == [1] * 25 + [0] * 5
    small("office-home", each=1, classes=30, partial=(24, 25, 25, 25))
    with pytest.warns(UserWarning, match="25 classes:.*25.*24"):
        load_benchmark("office-home", tmp_path, ["Art"], partial="first:25")


def test_partial_classes():
    classes = ["mug", "bike", "TV", "laptop"]
    assert partial_classes("first:2", classes) == ("TV", "bike")
    assert partial_classes("mug,bike", classes) == partial_classes(["mug", "bike"], classes) == ("bike", "mug")
    assert partial_classes("first:3", ["10", "9", "2", "1"]) == ("1", "2", "9")
    for spec in ("first:0", "first:5", "first:x", "first:"):
        with refused(r"\b1\b.*\b4\b"):
            partial_classes(spec, classes)
    with refused(r"'bkie'.*'bike'\?"):
        partial_classes("mug,bkie", classes)
    with refused("'mug'"):
        partial_classes("mug,mug", classes)


def test_keep_classes_refuses(tmp_path, small):
    small("office-home", each=1, classes=2)
    art = load_benchmark("office-home", tree(tmp_path, ["Art"], ["Bed", "TV"]), ["Art"])["Art"]
    with refused("'Fork'"):
        keep_classes(art, ["Fork"])
    with refused("labels"):
        keep_classes(art.unlabelled(), ["TV"])
    with refused("'TV'"):
        keep_classes(art.subset([0]), ["TV"])


@pytest.mark.skipif(not os.environ.get("JUMBOT_DATA"), reason="JUMBOT_DATA names no folder with the real data")
def test_real_office_caltech():
    root = Path(os.environ["JUMBOT_DATA"]) / "office_caltech10"
    if not root.is_dir():
        pytest.skip(f"there is no {root}")
    for place in (root / "images", root / "features.npz"):
        found = load_benchmark("office-caltech10", place)
        assert [len(d) for d in found.values()] == [958, 1123, 157, 295]
        assert len({d.classes for d in found.values()}) == 1
