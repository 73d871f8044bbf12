"""Kernel machines of which little time is left."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons

from softmargin import BayesianKernelMachine, monitor
from softmargin.estimators import in_time
from softmargin.estimators import machine as estimator
from softmargin.estimators.in_time import frequencies_in_time, least_work, multiplications_per_second
from softmargin.kernels import RBF, Constant
from softmargin.monitor import Monitor

SPEED = 1e9


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless it is moved, on a machine of known speed."""
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(monitor, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    monkeypatch.setattr(in_time, "multiplications_per_second", lambda: SPEED)
    return now


def test_what_is_left_of_a_budget_is_never_negative(clock):
    watch, unlimited = Monitor(max_time=3.0), Monitor()
    assert watch.time_left == 3.0
    clock.seconds += 2.5
    assert watch.time_left == 0.5
    clock.seconds += 2.5
    assert watch.time_left == 0.0
    assert unlimited.time_left == math.inf


@pytest.mark.parametrize("n_rows", [3000, 20_000])
def test_frequencies_are_halved_until_there_is_time_for_the_first_passes(n_rows, clock):
    need = {n: least_work(n, n_rows, 2) / SPEED for n in (1024, 512, 256, 128)}
    for n, seconds in need.items():
        assert frequencies_in_time(1024, 128, n_rows, 2, Monitor(max_time=1.001 * seconds)) == n
        less = frequencies_in_time(1024, 128, n_rows, 2, Monitor(max_time=0.999 * seconds))
        assert less == max(128, n // 2)
    late = Monitor(max_time=10 * need[1024])
    clock.seconds += 9.5 * need[1024]  # spent on tuning
    assert frequencies_in_time(1024, 128, n_rows, 2, late) == 512


def test_numbers_of_frequencies_that_are_no_powers_of_two_end_at_the_fewest(clock):
    assert frequencies_in_time(1000, 128, 3000, 2, Monitor(max_time=1e-9)) == 128
    assert frequencies_in_time(100, 128, 3000, 2, Monitor(max_time=1e-9)) == 100


def test_speed_is_measured_only_where_it_matters(monkeypatch):
    def refused():
        raise AssertionError("measured")

    monkeypatch.setattr(in_time, "multiplications_per_second", refused)
    assert frequencies_in_time(1024, 128, 10**6, 3, Monitor()) == 1024
    assert frequencies_in_time(128, 128, 10**6, 3, Monitor(max_time=1e-9)) == 128
    with pytest.raises(AssertionError, match="measured"):
        frequencies_in_time(256, 128, 10**6, 3, Monitor(max_time=1e9))


def test_the_work_grows_with_rows_up_to_a_sample_and_with_classes():
    work = [least_work(512, n_rows, 2) for n_rows in (1000, 8191, 8192, 65_536, 10**6, 10**7)]
    assert work[0] < work[2] < work[1]  # of 8,192 rows an eighth is sampled
    assert work[2] < work[3] < work[4] == work[5]
    assert least_work(512, 3000, 3) == 3 * least_work(512, 3000, 2)
    # Threads share the rows, but not the algebra of the weights.
    assert least_work(512, 3000, 2) / 2 < least_work(512, 3000, 2, n_jobs=2) < least_work(512, 3000, 2)


def test_speed_is_a_number_of_this_machine():
    assert 1e6 < multiplications_per_second() < 1e14


@pytest.mark.filterwarnings("ignore:Time was up")
def test_a_short_fit_has_fewer_frequencies_and_beats_the_prior(monkeypatch):
    monkeypatch.setattr(estimator, "_FREQUENCIES", (16, 64))
    X, y = make_moons(500, noise=0.2, random_state=0)
    model = BayesianKernelMachine(4.0 * RBF(0.7) + Constant(1.0), tune=None, inference="stein", random_state=0)
    short = clone(model).set_params(max_time=1e-9).fit(X, y)
    assert (short.n_frequencies_, short.stop_reason_) == (16, "time")
    assert -np.log(short.predict_proba(X)[np.arange(500), y]).mean() < 0.5 * np.log(2)
    given = clone(model).set_params(max_time=1e-9, n_frequencies=64).fit(X, y)
    assert given.n_frequencies_ == 64


def test_a_fit_with_enough_time_is_the_same_as_without_a_limit(monkeypatch):
    monkeypatch.setattr(estimator, "_FREQUENCIES", (16, 64))
    X, y = make_moons(500, noise=0.2, random_state=0)
    settings = {"tune": None, "inference": "stein", "n_steps": 20, "random_state": 0}
    free, limited = (
        BayesianKernelMachine(4.0 * RBF(0.7) + Constant(1.0), **settings, max_time=most).fit(X, y)
        for most in (None, 1e6)
    )
    assert limited.n_frequencies_ == 64
    np.testing.assert_array_equal(limited.predict_proba(X), free.predict_proba(X))
