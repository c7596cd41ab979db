"""`jumbot distance` and `jumbot flow` as a new user would run them, and with bad files."""

import json

import numpy as np
import pytest

import jumbot
from jumbot.cli import main
from jumbot.data._tables import load_pair, read_points
from tests.refusals import refused

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(80, 2)), RNG.normal(size=(70, 2)) + 1


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.savetxt(tmp_path / "y.csv", Y, delimiter=",", header="u,v", comments="")
    np.savez(tmp_path / "y.npz", Y)
    return tmp_path


def test_text_and_json_agree_with_the_function(files, capsys):
    command = ["distance", str(files / "x.npy"), str(files / "y.csv"), "--m", "8", "--k", "50", "--tau", "1"]
    command += ["--epsilon", "0.1"]
    assert main(command) == 0
    expected = jumbot.estimate(X, Y, m=8, k=50, tau=1.0, epsilon=0.1)
    assert f"value {expected.value:.6g}" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["value"] == pytest.approx(expected.value, rel=1e-12)
    assert result["low"] < result["value"] < result["high"]


def test_several_sizes_and_precision(files, capsys):
    command = ["distance", str(files / "x.npy"), str(files / "y.npz"), "--epsilon", "0.1", "--json"]
    assert main([*command, "--m", "4", "8", "--precision", "0.1"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [r["m"] for r in results] == [4, 8]


def test_parquet(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pandas.DataFrame(Y, columns=["u", "v"]).to_parquet(tmp_path / "y.parquet")
    np.testing.assert_allclose(read_points(tmp_path / "y.parquet")[0], Y)
    pandas.DataFrame({"u": [1.0], "name": ["a"]}).to_parquet(tmp_path / "text.parquet")
    with refused("'name'"):
        read_points(tmp_path / "text.parquet")[0]


def test_columns_are_matched_by_name(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(Y, columns=["u", "v"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame[["v", "u"]].to_csv(tmp_path / "y.csv", index=False)
    for points in load_pair(tmp_path / "x.csv", tmp_path / "y.csv"):
        np.testing.assert_allclose(points, Y)
    frame.rename(columns={"u": "U"}).to_csv(tmp_path / "other.csv", index=False)
    with refused("other.csv:.*'u'.*'U'.*'u'"):
        load_pair(tmp_path / "x.csv", tmp_path / "other.csv")
    frame.assign(w=Y[:, 0]).to_csv(tmp_path / "more.csv", index=False)
    with refused("more.csv:.*x.csv lacks:"):
        load_pair(tmp_path / "x.csv", tmp_path / "more.csv")


def test_a_table_without_names_is_remarked_on(tmp_path):
    np.savetxt(tmp_path / "x.csv", X, delimiter=",")
    np.savetxt(tmp_path / "y.csv", Y, delimiter=",", header="u,v", comments="")
    with pytest.warns(jumbot.DataWarning, match=r"x\.csv: .*in order, u, v"):
        load_pair(tmp_path / "x.csv", tmp_path / "y.csv")


def test_an_archive_is_its_rows_and_never_its_labels(tmp_path):
    np.savez(tmp_path / "x.npz", y=np.arange(80.0), X=X)
    np.testing.assert_array_equal(read_points(tmp_path / "x.npz")[0], X)
    np.testing.assert_array_equal(
        jumbot.estimate(tmp_path / "x.npz", Y, m=8, k=3, epsilon=0.1).values,
        jumbot.estimate(X, Y, m=8, k=3, epsilon=0.1).values,
    )
    np.savez(tmp_path / "two.npz", X=X, Y=Y)
    with refused("X, Y"):
        read_points(tmp_path / "two.npz")
    with refused("X, Y") as error:
        jumbot.estimate(X, tmp_path / "two.npz", m=8, k=3, epsilon=0.1)
    assert error.value.argument == "y"


@pytest.mark.parametrize("name", ["id", "label", "Unnamed: 0"])
def test_a_column_that_is_hardly_a_coordinate(tmp_path, name):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pandas.DataFrame(Y, columns=["u", "v"]).assign(**{name: range(len(Y))}).to_csv(tmp_path / "x.csv", index=False)
    with pytest.warns(UserWarning, match=f"'{name}'"):
        read_points(tmp_path / "x.csv")[0]


BAD = {
    "missing.csv: does not exist": ("missing.csv", None),
    "line 2 has 1": ("ragged.csv", "1,2\n3\n"),
    "row 1": ("nan.csv", "1,2\nnan,3\n"),
    "is text": ("text.csv", "u,v\n1,2\n3,red\n"),
    "no rows": ("empty.csv", ""),
    "is not known": ("points.txt", "1,2\n"),
    "cannot be read": ("broken.npy", "not an array"),
    "same shape": ("wide.csv", "1,2,3\n" * 70),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_files_get_one_clear_line(message, files, capsys):
    name, content = BAD[message]
    if content is not None:
        (files / name).write_text(content)
    assert main(["distance", str(files / "x.npy"), str(files / name), "--m", "8", "--epsilon", "0.1"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--m", "500"], "m: 500"),
        (["--divergence", "kll"], "kl"),
        (["--epsilon", "-1"], "epsilon"),
        (["--tau", "0"], "tau"),
    ],
)
def test_bad_options_get_one_clear_line(option, message, files, capsys):
    command = ["distance", str(files / "x.npy"), str(files / "y.csv"), "--m", "8", "--k", "5", "--epsilon", "0.1"]
    assert main([*command, *option]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_flow_writes_points(files, capsys):
    out = files / "end.npy"
    command = ["flow", str(files / "x.npy"), str(files / "y.csv"), "--epsilon", "0.1", "--m", "16", "--steps", "20"]
    assert main([*command, "--learning-rate", "0.1", "--out", str(out)]) == 0
    assert "loss" in capsys.readouterr().out
    assert np.load(out).shape == X.shape
    assert main([*command, "--out", str(files / "end.txt")]) == 2
