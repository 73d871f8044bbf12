import threading
import time

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from softmargin.chunks import Table, blocks, dense, gather_rows, n_threads, rows_in_block, sweep, threads
from softmargin.rows import Latent


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        assert set(blas_threads()) == {2}
        yield


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("n_blocks", [1, 2, 17])
def test_sweep_keeps_the_order_of_blocks(n_blocks, n_jobs):
    def slow_at_first(index):
        time.sleep(0.003 if index % 3 == 0 else 0)
        return index

    assert list(sweep(slow_at_first, n_blocks, n_jobs)) == list(range(n_blocks))


def test_sweep_runs_blocks_in_other_threads_and_few_ahead():
    started, threads = [], set()

    def note(index):
        started.append(index)
        threads.add(threading.get_ident())
        time.sleep(0.001)

    results = sweep(note, 100, 2)
    next(results)
    assert len(started) <= 10
    results.close()
    assert threading.get_ident() not in threads
    assert len(started) < 100


def test_sweep_limits_blas_while_it_runs_and_puts_it_back(two_blas_threads):
    assert {count for counts in sweep(lambda _: blas_threads(), 4, 2) for count in counts} == {1}
    assert set(blas_threads()) == {2}


def test_blas_is_put_back_when_a_sweep_is_left_early(two_blas_threads):
    results = sweep(lambda index: index, 10, 2)
    next(results)
    assert set(blas_threads()) == {1}
    results.close()
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_come_through_and_leave_blas_as_it_was(n_jobs, two_blas_threads):
    def fail(index):
        if index == 3:
            raise ZeroDivisionError("block three")
        return index

    results = sweep(fail, 50, n_jobs)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError, match="block three"):
        next(results)
    assert set(blas_threads()) == {2}


@given(width=st.integers(0, 10**9), itemsize=st.sampled_from([4, 8]))
def test_blocks_are_as_large_as_the_cache_allows(width, itemsize):
    rows = rows_in_block(width, itemsize)
    fewest, most, cache = blocks._MIN_ROWS, blocks._MAX_ROWS, blocks._BLOCK_BYTES
    assert isinstance(rows, int)
    assert fewest <= rows <= most
    assert rows * width * itemsize <= cache or rows == fewest
    assert (rows + 1) * width * itemsize > cache or rows == most


def test_table_takes_the_wider_of_columns_and_features_and_their_size_in_bytes():
    X, y = np.zeros((3, 2000)), np.zeros(3)
    assert Table.of(X, y, y, 10).block_rows == rows_in_block(2000)
    assert Table.of(X[:, :5], y, y, 1000).block_rows == rows_in_block(1000)
    single = Table.of(X[:, :5].astype(np.float32), y, y, 1000).block_rows
    assert single == rows_in_block(1000, 4) > rows_in_block(1000)
    assert Table.of(scipy.sparse.csr_array(X), y, y, 10).block_rows == rows_in_block(2000)


@pytest.mark.parametrize("block_rows", [1, 4, 10, 11])
@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csr_matrix, torch.from_numpy])
def test_blocks_make_up_the_table(convert, block_rows):
    X, y, weight = np.arange(30.0).reshape(10, 3) % 4, np.arange(10.0), np.linspace(1, 2, 10)
    table = Table(convert(X), y, weight, block_rows)
    blocks = [table.block(index) for index in range(table.n_blocks)]
    assert table.n_rows == 10
    assert all(len(part[1]) == len(part[0]) == len(part[2]) <= block_rows for part in blocks)
    for whole, parts in zip((X, y, weight), zip(*blocks, strict=True), strict=True):
        assert_array_equal(np.concatenate([np.asarray(part) for part in parts]), whole)
    assert type(table.reference) is type(blocks[0][0])
    assert table.reference.dtype == blocks[0][0].dtype


def test_dense_leaves_dense_arrays_alone():
    X = np.eye(3)
    assert dense(X) is X
    assert_array_equal(dense(scipy.sparse.csr_array(X)), X)


def test_numbers_of_jobs_count_as_in_joblib(monkeypatch, two_blas_threads):
    monkeypatch.setattr(threads, "cpu_count", lambda: 6)
    assert [n_threads(n) for n in (1, 4, -1, -2, -6, -60)] == [1, 4, 6, 5, 1, 1]
    assert n_threads(None) == 2
    with threadpool_limits(1):  # as joblib does in its workers
        assert n_threads(None) == 1


def test_sweeps_in_several_threads_share_one_limit(two_blas_threads):
    first, second = sweep(str, 3, 1), sweep(str, 3, 1)
    assert [next(first), next(second)] == ["0", "0"]
    first.close()
    assert set(blas_threads()) == {1}
    second.close()
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize("xp", [np, torch])
def test_gathered_rows_are_one_after_another(xp):
    part = Latent(xp.ones(2), xp.zeros(2), 2 * xp.ones(2))
    whole = Latent(*gather_rows(iter([part, Latent(xp.zeros(1), xp.ones(1), xp.ones(1))])))
    assert whole.mu.tolist() == [1, 1, 0]
    assert whole.v.tolist() == [2, 2, 2]


def test_a_sweep_within_a_sweep_does_not_wait_for_itself():
    def inner(index):
        return sum(sweep(lambda other: index * other, 5, 2))

    assert list(sweep(inner, 6, 2)) == [10 * index for index in range(6)]
