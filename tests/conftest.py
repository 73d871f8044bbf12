import os

# Before SciPy is imported: scikit-learn's check of other array libraries is skipped without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# Before PyTorch is: threads that wait for each other on shared cores cost more than all else.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import itertools

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from softmargin.engine import Problem

pytest.register_assert_rewrite("contracts")

settings.register_profile("softmargin", deadline=None, derandomize=True, max_examples=60, database=None)
settings.load_profile("softmargin")


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
