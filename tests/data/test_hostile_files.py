"""Files that are made to break a reader are refused by name: no traceback, no wait, no memory."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

import jumbot
from jumbot._base.files import read_bytes
from jumbot.data import _tablefiles, as_domain
from jumbot.data._tables import load_table
from jumbot.errors import ArgumentError, DataWarning
from tests.refusals import refused

X = np.random.default_rng(0).normal(size=(24, 3))


def write_csv(path, cells=(), labels=None):
    rows = [[f"{value:.3f}" for value in row] for row in X]
    for (row, column), text in dict(cells).items():
        rows[row][column] = text
    labels = labels or ["xy"[i % 2] for i in range(len(rows))]
    lines = ["a,b,c,kind", *(",".join([*row, label]) for row, label in zip(rows, labels, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


# a column of nothing but texts of 5,000 digits is one of categories: Python reads no such number
@pytest.mark.parametrize(
    ("where", "digits"), [("one", 400), ("one", 5000), ("all", 400), ("target", 400), ("target", 5000)]
)
def test_whole_numbers_beyond_all_floats_are_named_by_their_line(tmp_path, where, digits):
    cells = {(3, 1): "9" * digits} if where == "one" else {(row, 1): "9" * digits for row in range(len(X))}
    given = write_csv(tmp_path / "big.csv", cells), write_csv(tmp_path / "plain.csv")
    with refused("big"):
        jumbot.adapt(*(reversed(given) if where == "target" else given), label="kind", steps=1)


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_label_of_many_digits_is_a_name(tmp_path, digits):
    labels = ["9" * digits if i == 3 else str(i % 2) for i in range(len(X))]
    assert as_domain(write_csv(tmp_path / "a.csv", labels=labels), label="kind").classes == ("0", "1", "9" * digits)


def test_labels_in_memory_beyond_all_floats():
    labels = [10**400 * (i % 2) for i in range(len(X))]
    assert as_domain((X, labels)).classes == ("0", str(10**400))
    with refused("infinite"):
        as_domain((X, labels), task="regression")


def archive(path, shape):
    """Arrays of which one claims a shape that the file does not have."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    raw = header.getvalue() + bytes(64)
    if path.suffix == ".npy":
        path.write_bytes(raw)
    else:
        with zipfile.ZipFile(path, "w") as opened:
            opened.writestr("X.npy", raw)
    return path


@pytest.mark.parametrize("ending", [".npz", ".npy"])
@pytest.mark.parametrize("shape", [(10**12, 4), (-5, 4), (2**62, 2**62)])
def test_an_array_that_claims_what_it_has_not(tmp_path, shape, ending):
    file = archive(tmp_path / f"a{ending}", shape)
    with refused(re.escape(file.name)):
        as_domain(str(file))
    with refused(re.escape(file.name)):
        jumbot.estimate(str(file), X, m=4, k=2, epsilon=0.1)


def test_an_archive_of_nothing(tmp_path):
    np.savez(tmp_path / "none.npz")
    with refused(r"none\.npz"):
        jumbot.estimate(str(tmp_path / "none.npz"), X, m=4, k=2, epsilon=0.1)


def workbook(path, part, change):
    """An ordinary workbook with one part changed."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [["a", "b", "kind"], *([[1.0, 2.0, "x"], [2.0, 1.0, "y"]] * 4)]:
        book.active.append(row)
    plain = path.with_name("plain.xlsx")
    book.save(plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name == part else old.read(name))
    return str(path)


ENTITIES = b"".join(b'<!ENTITY l%d "%s">' % (i, b"&l%d;" % (i - 1) * 10) for i in range(1, 10))


@pytest.mark.parametrize("part", ["xl/worksheets/sheet1.xml", "xl/styles.xml", "xl/workbook.xml"])
def test_a_workbook_of_nested_entities(tmp_path, part):
    def change(xml):
        body = xml.split(b"?>", 1)[-1]
        return b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "lol">' + ENTITIES + b"]>" + body

    with refused(r"lol\.xlsx"):
        as_domain(workbook(tmp_path / "lol.xlsx", part, change), label="kind")


def test_a_workbook_whose_markup_is_cut(tmp_path):
    file = workbook(tmp_path / "cut.xlsx", "xl/worksheets/sheet1.xml", lambda xml: xml[:200])
    with refused(r"cut\.xlsx"):
        as_domain(file, label="kind")


def test_lines_as_long_as_those_of_a_hundred_thousand_columns(tmp_path):
    count, limit = 2_000, csv.field_size_limit()
    lines = [",".join([*(f"{i:0100}c" for i in range(count)), "kind"])]
    assert len(lines[0]) > limit
    lines += [",".join([*("1.5" if row % 2 else "2.5",) * count, "xy"[row % 2]]) for row in range(4)]
    (tmp_path / "wide.csv").write_text("\n".join(lines) + "\n")
    found = as_domain(str(tmp_path / "wide.csv"), label="kind")
    assert (len(found), found.classes, len(found.roles.features)) == (4, ("x", "y"), count)
    assert csv.field_size_limit() == limit


def test_a_long_text_in_quotes(tmp_path):
    lines = [f'{i},"{"word, " * 40_000}",{"xy"[i % 2]}' for i in range(4)]
    (tmp_path / "long.csv").write_text("\n".join(["a,b,kind", *lines]) + "\n")
    assert len(as_domain(str(tmp_path / "long.csv"), label="kind", drop="b")) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
class TestPipes:
    """A pipe that nobody writes to would be waited for without end."""

    def test_as_data(self, tmp_path):
        for name in ("a.csv", "a.npz", "a.npy", "a.xlsx", "a.parquet", "a.png", "a.txt", "a"):
            os.mkfifo(tmp_path / name)
            with refused(re.escape(name)):
                as_domain(str(tmp_path / name))
        for name in ("a.npy", "a.npz"):
            with refused(re.escape(name)):
                jumbot.estimate(str(tmp_path / name), X, m=4, k=2, epsilon=0.1)

    def test_among_images(self, tmp_path):
        from PIL import Image

        (tmp_path / "cat").mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / "cat" / "1.png")
        os.mkfifo(tmp_path / "cat" / "2.png")
        (tmp_path / "cat" / "3.png").symlink_to("nowhere.png")
        with pytest.raises(ArgumentError, match=r"2.*3.*cat/2.png \(is.*file\), cat/3.png \(is a broken link"):
            as_domain(str(tmp_path))
        with pytest.warns(UserWarning, match="2 of 3"):
            assert as_domain(str(tmp_path), corrupt="skip").ids == ["cat/1.png"]

    @pytest.mark.parametrize(
        "name", ["model.json", "config.json", "model.safetensors", "results.json", "metrics.jsonl"]
    )
    def test_as_a_file_of_a_run(self, tmp_path, name, trained_run):
        run = tmp_path / "run"
        shutil.copytree(trained_run, run)
        (run / name).unlink()
        os.mkfifo(run / name)
        with refused(name):
            jumbot.load(run).report()

    def test_read_bytes(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with refused("pipe"):
            read_bytes(tmp_path / "pipe")


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory):
    run = tmp_path_factory.mktemp("trained") / "run"
    labels = np.arange(len(X)) % 2
    jumbot.adapt((X + 4 * labels[:, None], labels), X, steps=1, out=run, report=False, method="jumbot", judge=False)
    return run


def test_cells_with_an_error_are_named(tmp_path, monkeypatch):
    """They are read as missing, and so would be filled without a word."""
    monkeypatch.setattr(_tablefiles, "_PIECE", 50)
    frame = pd.DataFrame({"x": [1.5, "#DIV/0!", 2.5, "#VALUE!", "#N/A"], "label": list("ababa")})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    with pytest.warns(DataWarning, match=r"2 cells.*A3, A5"):
        found = load_table(tmp_path / "t.xlsx")
    assert found.samples.table.frame["x"].isna().tolist() == [False, True, False, True, True]


@pytest.mark.parametrize("single", ["features", "label", "domain"])
def test_a_single_value_in_the_place_of_an_array(tmp_path, single):
    arrays = {"features": np.zeros((4, 2)), "label": np.arange(4), "domain": np.zeros(4)}
    np.savez(tmp_path / "t.npz", **{**arrays, single: np.float64(3)})
    with refused(f"{single} is a single value"):
        load_table(tmp_path / "t.npz")


def test_labels_of_several_lengths(tmp_path):
    np.savez(tmp_path / "t.npz", features=np.zeros((4, 2)), height=np.zeros(4), weight=np.zeros(3))
    with refused("3 labels for 4 rows"):
        load_table(tmp_path / "t.npz", label="height,weight")
