"""Data as other libraries have them, each read by its own: polars, scipy, datasets, torchvision, torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy import sparse
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import jumbot
from jumbot.data import _datasets as streams
from jumbot.data import as_domain, prepare
from jumbot.data._sources import read_domains
from tests.refusals import refused

FRAME = pd.DataFrame(
    {"a": [1.0, 2.0, 3.0, 4.0], "ward": ["x", "y", "x", "y"], "kind": ["cat", "dog", "dog", "cat"], "id": list("pqrs")}
)


def _numbers(domain: Any) -> np.ndarray:
    return domain.samples.batch(np.arange(len(domain))).numpy()


def _read_alike(one: Any, other: Any) -> None:
    """The same samples, labels and ids after preparation."""
    a, b = (read_domains(data, data, reading=jumbot.data.Reading(label="kind"))[0] for data in (one, other))
    assert (a.classes, a.labels.tolist(), a.ids) == (b.classes, b.labels.tolist(), b.ids)
    np.testing.assert_array_equal(*(_numbers(prepare(d, d)[0]) for d in (a, b)))


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(FRAME)
    _read_alike(frame, FRAME)
    _read_alike(frame.with_columns(polars.col("ward").cast(polars.Categorical)), FRAME)
    nested = frame.with_columns(e=polars.Series([[1.0, 2.0]] * 4)).drop("a", "ward")
    assert as_domain(nested, label="kind").roles.features == ("e[0]", "e[1]")
    with refused(r"data\.collect\(\)"):
        as_domain(frame.lazy())


def test_pyarrow() -> None:
    _read_alike(pytest.importorskip("pyarrow").Table.from_pandas(FRAME), FRAME)


def test_tensors_of_bfloat16(rng: np.random.Generator) -> None:
    x = torch.tensor(rng.normal(size=(12, 3)), dtype=torch.bfloat16)
    y = torch.arange(12) % 2
    for data in ((x, y), TensorDataset(x, y)):
        np.testing.assert_array_equal(_numbers(as_domain(data)), x.float().numpy())
    stream = as_domain(DataLoader(TensorDataset(x, y), batch_size=5), like=jumbot.data._roles.Roles(()))
    np.testing.assert_array_equal(_numbers(stream), x.float().numpy())


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_rows(rng: np.random.Generator, kind: Any) -> None:
    dense = np.where(rng.random((40, 6)) < 0.2, rng.normal(size=(40, 6)), 0)
    labels = np.arange(40) % 2
    a, b, _ = prepare(as_domain((kind(dense), labels)), as_domain(kind(dense)))
    c, _, _ = prepare(as_domain((dense, labels)), as_domain(dense))
    np.testing.assert_array_equal(_numbers(a), _numbers(c))
    np.testing.assert_array_equal(_numbers(b), _numbers(c))
    holed = dense.copy()
    holed[3, 2] = np.nan
    with refused("1.*NaN.*3"):
        as_domain(sparse.csr_array(holed), name="mine")


def test_sparse_rows_teach_a_model(rng: np.random.Generator) -> None:
    labels = np.arange(60) % 2
    dense = (rng.random((60, 30)) < 0.1) * 1.0
    dense[np.arange(60), labels] = 3
    rows = sparse.csr_array(dense)
    model = jumbot.adapt((rows, labels), rows, steps=60, method="jumbot", judge=False)
    assert (model.predict(rows) == labels).mean() > 0.9
    np.testing.assert_array_equal(model.predict(rows), model.predict(dense))


def test_huggingface_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_pandas(FRAME)
    _read_alike(data, FRAME)
    _read_alike(data.with_format("torch"), FRAME)
    named = data.class_encode_column("kind")
    assert as_domain(named).classes == ("cat", "dog")  # the only column of classes
    assert as_domain(named).roles.features == ("a", "ward")
    embedded = datasets.Dataset.from_dict({"e": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]})
    assert as_domain(embedded).shape == (2,)
    with refused(r"e\.g\. data\['train'\]"):
        as_domain(datasets.DatasetDict({"train": data, "test": data}))
    with refused("arrays"):
        as_domain(named.to_iterable_dataset())
    _, target, _ = read_domains(named, named.to_iterable_dataset())
    assert (len(target), target.classes) == (4, ("cat", "dog"))
    with refused("the Dataset is empty"):
        as_domain(data.select([]))
    monkeypatch.setattr(streams, "MOST_BYTES", 100)
    with refused("GiB"):
        read_domains(named, named.to_iterable_dataset())


def test_huggingface_pictures() -> None:
    datasets = pytest.importorskip("datasets")
    pictures = [Image.new("RGB", (8 + i, 6), (40 * i, 0, 0)) for i in range(4)]
    columns = {"image": pictures, "label": [1, 0, 1, -1], "caption": ["some text"] * 4, "domain": list("aabb")}
    features = datasets.Features(
        image=datasets.Image(),
        label=datasets.ClassLabel(names=["mug", "pen"]),
        caption=datasets.Value("string"),
        domain=datasets.Value("string"),
    )
    data = datasets.Dataset.from_dict(columns, features=features)
    domain = as_domain(data, domain="b")
    assert (domain.classes, domain.labels.tolist(), domain.samples.size) == (("pen",), [0, -1], None)
    whole = as_domain(data.remove_columns("domain"))
    assert (whole.classes, whole.labels.tolist()) == (("mug", "pen"), [1, 0, 1, -1])
    _, b, _ = prepare(whole.subset([0, 1]), whole, 6, pixels="unit")
    np.testing.assert_allclose(_numbers(b)[:, 0, 3, 3], np.arange(4) * 40 / 255, atol=1e-6)
    two = datasets.Dataset.from_dict(
        columns | {"other": pictures}, datasets.Features(features | {"other": features["image"]})
    )
    with refused("image, other"):
        as_domain(two, domain="a")
    assert len(as_domain(two, domain="a", drop="other")) == 2


def test_torchvision(tmp_path: Path) -> None:
    from jumbot.data._torchvision import import_torchvision

    try:
        torchvision = import_torchvision()
    except jumbot.MissingPackageError as error:
        pytest.skip(str(error))
    for number, kind in enumerate(("mug", "pen")):
        (tmp_path / kind).mkdir()
        for i in range(3):
            Image.new("RGB", (9 + i, 7), (90 * number, 0, 10 * i)).save(tmp_path / kind / f"{i}.png")
    folder = torchvision.datasets.ImageFolder(tmp_path)
    domain, ours = as_domain(folder), as_domain(tmp_path)
    assert (domain.classes, domain.labels.tolist()) == (ours.classes, ours.labels.tolist())
    np.testing.assert_array_equal(*(_numbers(prepare(d, d, 8)[0]) for d in (domain, ours)))
    assert as_domain(Subset(folder, [5, 4])).classes == ("pen",)
    tensors = torchvision.transforms.Compose([torchvision.transforms.Resize((8, 8)), torchvision.transforms.ToTensor()])
    assert as_domain(torchvision.datasets.ImageFolder(tmp_path, tensors)).shape == (3, 8, 8)


def _loader(**options: Any) -> DataLoader[Any]:
    x = torch.arange(14.0).reshape(7, 2)
    return DataLoader(TensorDataset(x, torch.tensor([0, 1, 0, 1, 0, 1, 1])), batch_size=3, **options)


def test_loaders_are_read_whole_as_targets() -> None:
    source = (np.random.default_rng(0).normal(size=(8, 2)), [0, 1] * 4)
    _, target, _ = read_domains(source, _loader())
    assert target.labels.tolist() == [0, 1, 0, 1, 0, 1, 1]
    np.testing.assert_array_equal(_numbers(target), torch.arange(14.0).reshape(7, 2))
    model = jumbot.adapt(source, _loader(), steps=3, method="jumbot", judge=False)
    np.testing.assert_array_equal(model.predict(_loader()), model.predict(_loader().dataset))
    with refused("source"):
        jumbot.adapt(_loader(), _loader(), method="jumbot", judge=False)
    with refused("shuffle=False"):
        read_domains(source, _loader(shuffle=True))
    with refused("drop_last=True"):
        read_domains(source, _loader(drop_last=True))


class _Stream(IterableDataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


def test_iterables_are_read_whole_as_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (np.zeros((4, 2)), [0, 1] * 2)
    items = [(np.array([i, 2.0]), i % 2) for i in range(5)]
    for stream in (_Stream(items), iter(items), (item for item in items), DataLoader(_Stream(items), batch_size=2)):
        _, target, _ = read_domains(source, stream)
        assert (len(target), target.labels.tolist()) == (5, [0, 1, 0, 1, 0])
    pictures = _Stream([Image.new("L", (8, 6 + i)) for i in range(3)])
    _, target, _ = read_domains((np.zeros((4, 9, 9)), [0, 1] * 2), pictures)
    assert (len(target), target.labels) == (3, None)
    with refused("__len__.*__getitem__"):
        as_domain(_Stream(items))
    with refused("the stream is empty"):
        read_domains(source, iter([]))
    with refused(r"\(x, y\)"):
        read_domains(source, iter([{"x": 1, "y": 2}]))
    pictures = DataLoader([Image.new("L", (8, 6))] * 3, batch_size=2, collate_fn=list)
    with refused(r"\.dataset"):
        read_domains(source, pictures)
    with refused("shapes .*same shape"):
        read_domains(source, iter([np.zeros(2), np.zeros(3)]))
    monkeypatch.setattr(streams, "MOST_BYTES", 1000)
    with refused("GiB"):
        read_domains(source, (np.zeros(2) for _ in iter(int, 1)))
