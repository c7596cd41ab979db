"""Files of `scipy.sparse.save_npz`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from jumbot.data import as_domain
from tests.refusals import refused


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_a_sparse_matrix_in_a_file_is_the_matrix(tmp_path, form) -> None:
    matrix = scipy.sparse.random_array((12, 5), density=0.3, rng=np.random.default_rng(0)).asformat(form)
    scipy.sparse.save_npz(tmp_path / "words.npz", matrix)
    domain = as_domain(tmp_path / "words.npz")
    assert (domain.name, domain.shape, domain.labels) == ("words", (5,), None)
    np.testing.assert_allclose(domain.samples.batch(np.arange(12)).numpy(), matrix.toarray(), rtol=1e-6)


def test_what_is_wrong_with_it_is_said(tmp_path) -> None:
    file = tmp_path / "words.npz"
    scipy.sparse.save_npz(file, scipy.sparse.csr_array(np.array([[1.0, np.nan]])))
    with refused("words.npz: 1.*NaN"):
        as_domain(file)
    np.savez(file, format="csr", shape=(2, 2), data=np.ones(1))
    with refused("words.npz:"):
        as_domain(file)
    scipy.sparse.save_npz(file, scipy.sparse.eye_array(4))
    with refused("stars"):
        as_domain(file, label="stars")
