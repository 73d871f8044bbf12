import os

# Before SciPy is imported: scikit-learn's check of other array libraries is skipped without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# Before PyTorch is: threads that wait for each other on shared cores cost more than all else.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import itertools
import random

import numpy as np
import pytest
from hypothesis import settings
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from softmargin.chunks import survey
from softmargin.engine import Problem

pytest.register_assert_rewrite("contracts")

settings.register_profile("softmargin", deadline=None, derandomize=True, max_examples=60, database=None)
settings.load_profile("softmargin")


def pytest_addoption(parser):
    parser.addoption("--shuffle", metavar="SEED", help="files, and the tests of each file, in a random order")


@pytest.hookimpl(trylast=True)  # after those that put tests together
def pytest_collection_modifyitems(config, items):
    """Each worker shuffles for itself, and all have to come to the same order: so there is no seed but a given one."""
    seed = config.getoption("shuffle", None)
    if seed is None:
        return
    by_lot, files = random.Random(seed), {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    parts = list(files.values())
    for part in (*parts, parts):
        by_lot.shuffle(part)
    items[:] = itertools.chain.from_iterable(parts)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small matrices on shared cores: threads in BLAS cost a hundred times what they save."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def interrupt_pass(monkeypatch):
    """``interrupt_pass(k)``: whoever makes pass ``k``, counted from none, is interrupted."""

    def at(number):
        calls, whole = itertools.count(), Problem.stats

        def interrupted(problem, belief):
            if next(calls) == number:
                raise KeyboardInterrupt
            return whole(problem, belief)

        monkeypatch.setattr(Problem, "stats", interrupted)

    return at


@pytest.fixture(scope="module")
def fit_of(table):
    """Each model fitted to the module's table, rows and labels last in it, once for all tests that only look at it."""
    found = {}

    def fit_of(model):
        if repr(model) not in found:
            found[repr(model)] = clone(model).fit(*table[-2:])
        return found[repr(model)]

    return fit_of


@pytest.fixture
def small_samples(monkeypatch):
    """Samples of a thousand rows, so that a few thousand are too many for memory."""
    monkeypatch.setattr(survey, "MOST_ROWS", 1000)
    monkeypatch.setattr(survey, "_LEAST_ROWS", 10)
