"""Feature tables in every format, and Datasets."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from jumbot._settings.reading import Reading
from jumbot.data import as_domain, load_table, prepare
from jumbot.data._sources import read_domains
from jumbot.data._tables import domains_of
from jumbot.errors import ArgumentError
from tests.refusals import refused

X = np.array([[1.5, 2.0, 3.0], [4.0, 5.0, 6.25], [7.0, 8.0, 9.0], [0.0, -1.0, 2.0]])
Y = ["cat", "dog", "cat", "eel"]
DOMAINS = ["amazon", "amazon", "webcam", "webcam"]


def _write(folder: Path, ending: str, extra: dict | None = None) -> Path:
    path = folder / f"table{ending}"
    if ending == ".npz":
        np.savez(path, features=X.astype(np.float16), label=np.array(Y), **(extra or {}))
        return path
    table = {**{f"f{i}": X[:, i] for i in range(3)}, "label": Y, **(extra or {})}
    if ending == ".parquet":
        parquet.write_table(pa.table(table), path)
    else:
        lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
def test_features_and_labels(tmp_path: Path, ending: str) -> None:
    domain = as_domain(_write(tmp_path, ending))
    assert (domain.name, domain.classes, domain.labels.tolist()) == ("table", ("cat", "dog", "eel"), [0, 1, 0, 2])
    batch = domain.samples.batch(np.arange(4))
    assert batch.dtype == torch.float32
    np.testing.assert_array_equal(batch, X)


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
def test_one_domain_of_a_table(tmp_path: Path, ending: str) -> None:
    path = _write(tmp_path, ending, {"domain": DOMAINS, "id": ["a", "b", "c", "d"]})
    webcam = as_domain(f"{path}:webcam")
    assert (webcam.name, list(webcam.ids), webcam.classes) == ("webcam", ["c", "d"], ("cat", "eel"))
    np.testing.assert_array_equal(webcam.samples.batch(np.arange(2)), X[2:])
    assert len(load_table(path, domain="amazon")) == 2
    assert domains_of(path) == ["amazon", "webcam"]
    with refused(r"\(amazon, webcam\).*table\S+:amazon"):
        as_domain(path)
    with refused("domain"):
        as_domain(f"{path}:dslr")


def test_an_array_may_go_with_a_table_whose_label_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", X)
    path = _write(tmp_path, ".csv")
    assert len(read_domains(path, tmp_path / "t.npy", reading=Reading(label="label"))[1]) == 4
    with refused("label"):
        as_domain(tmp_path / "t.npy", label="label")


def test_domains_of_a_frame_are_asked_about() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=Y, domain=DOMAINS)
    with pytest.raises(ArgumentError, match=r"e\.g\..*'amazon'.*domain='all'"):
        as_domain(frame)
    assert as_domain(frame, domain="webcam").classes == ("cat", "eel")


def test_selector_without_domains(tmp_path: Path) -> None:
    with refused("'domain'"):
        as_domain(f"{_write(tmp_path, '.csv')}:amazon")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_label_by_name(tmp_path: Path, ending: str) -> None:
    path = _write(tmp_path, ending, {"kind": [3, 1, 3, 1]})
    with refused("'kind'.*'label'.*drop='label'"):
        load_table(path, "kind")
    kinds = load_table(path, "kind", drop="label")
    assert (kinds.shape, kinds.classes) == ((3,), ("1", "3"))
    with refused("'species'.*f0, f1, f2"):
        load_table(path, "species")
    assert load_table(path).shape == (4,)
    with refused(r"\blabel\b.*\by\b"):
        load_table(_write(tmp_path, ending, {"y": [1, 2, 3, 4]}))


def test_csv_without_names_or_labels(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    domain = load_table(tmp_path / "x.csv")
    assert (domain.shape, domain.labels) == ((2,), None)


def test_csv_with_byte_order_mark_and_missing_labels(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("label,a\ncat,1\n,2\ndog,3\n", encoding="utf-8-sig")
    assert load_table(tmp_path / "x.csv").labels.tolist() == [0, -1, 1]


def test_nan_rows_of_arrays(tmp_path: Path) -> None:
    features = np.zeros((4, 2))
    features[3, 0] = np.nan
    np.savez(tmp_path / "x.npz", X=features, domain=np.array(DOMAINS))
    assert len(load_table(tmp_path / "x.npz", domain="amazon")) == 2
    with refused("row 3 of"):
        load_table(tmp_path / "x.npz", domain="webcam")


def test_masked_entries_are_no_numbers() -> None:
    rows = np.ma.masked_array(np.ones((3, 2)), mask=[[0, 0], [0, 1], [0, 0]])
    with refused("data"):
        as_domain(rows)
    assert len(as_domain(np.ma.masked_array(np.ones((3, 2))))) == 3


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_masked_labels_are_no_labels(task: str) -> None:
    labels = np.ma.masked_array([1, 2, 1], mask=[0, 0, 1])
    with refused("data"):
        as_domain(np.ones((3, 2)), labels, task=task)
    assert len(as_domain(np.ones((3, 2)), np.ma.masked_array([1, 2, 1]), task=task)) == 3


def test_archives_that_are_no_tables(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=X, two=X)
    with refused("`features`"):
        load_table(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=X, y=Y[:2])
    with refused(r"\b2\b.*\b4\b"):
        load_table(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", X=X, y=np.array([None, "a", 1, 2], dtype=object))
    with refused(r"c\.npz"):
        load_table(tmp_path / "c.npz")
    for name in ("d.npz", "d.parquet", "d.xls"):
        (tmp_path / name).write_bytes(b"rubbish")
        with refused(re.escape(name)):
            load_table(tmp_path / name)
    (tmp_path / "e.csv").write_text("a,label\n")
    with refused(r"e\.csv"):
        load_table(tmp_path / "e.csv")
    (tmp_path / "f.csv").touch()
    with refused(r"f\.csv"):
        load_table(tmp_path / "f.csv")
    (tmp_path / "g.csv").write_text("label\ncat\n")
    with refused(r"g\.csv"):
        load_table(tmp_path / "g.csv")


def test_images_in_an_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=np.zeros((3, 8, 8), np.uint8), labels=[0, 1, 0])
    assert as_domain(tmp_path / "x.npz").shape == (1, 8, 8)


class _Pictures(Dataset):
    """Items as torchvision's data sets have them: PIL image and number."""

    classes = ("0 - zero", "1 - one")

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int):
        from PIL import Image

        return Image.new("RGB", (6, 4), (255, 0, 51)), index % 2


def test_dataset_of_pictures() -> None:
    domain = as_domain(_Pictures(), name="pictures")
    assert (domain.shape, domain.classes, domain.labels.tolist()) == ((3, 4, 6), ("0", "1"), [0, 1, 0])
    np.testing.assert_allclose(domain.samples.batch(np.array([2]))[0, :, 0, 0], [1, 0, 0.2], atol=1e-6)


def test_dataset_of_tensors() -> None:
    features = torch.randn(5, 3, dtype=torch.float64)
    domain = as_domain(TensorDataset(features, torch.tensor([4, 2, 4, 2, 2])))
    assert domain.classes == ("2", "4")
    np.testing.assert_allclose(domain.samples.batch(np.array([3])), features[3:4].float())
    assert as_domain(TensorDataset(features)).labels is None
    _, target, _ = prepare(domain, as_domain(features))
    assert target.shape == (3,)


def test_datasets_that_cannot_be_used() -> None:
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([1])

    with refused("Stream"):
        as_domain(Stream())
    with refused("is empty"):
        as_domain(TensorDataset(torch.zeros(0, 2)))


# one of 2,048 features of these photographs looks as if it had another unit: a false alarm, but one in 2,048
@pytest.mark.filterwarnings("ignore::jumbot.DataWarning")
def test_office_caltech_features() -> None:
    path = Path(os.environ.get("JUMBOT_DATA", "")) / "office_caltech10" / "features.npz"
    if not os.environ.get("JUMBOT_DATA") or not path.is_file():
        pytest.skip("JUMBOT_DATA names no folder with office_caltech10/features.npz")
    source, target, format = prepare(as_domain(f"{path}:amazon"), as_domain(f"{path}:dslr"))
    assert (len(source), len(target), format.shape, len(source.classes)) == (958, 157, (2048,), 10)
    assert target.labels.min() >= 0
