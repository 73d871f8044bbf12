"""Checkpoints as files: refused, damaged, on a full disk; and their parts."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import softmargin
from softmargin import BayesianLinearSVC, BayesianSVC
from softmargin.checkpoint import Checkpoint, Journal, OnDevice, _on_host, _where_it_was, digest
from softmargin.engine import Problem
from softmargin.kernels import Constant
from softmargin.monitor import InterruptedFitWarning
from softmargin.store import StoreError, archive, load, write
from test_checkpoint import KERNEL, LONG, assert_same, counting, crashed, rows, without_a_disk

quick_disk = pytest.fixture(without_a_disk, autouse=True)
counted = pytest.fixture(counting)


# Files -------------------------------------------------------------------------------------------


@pytest.fixture
def half(counted, tmp_path):
    """A fit that crashed, and what it was given."""
    model = BayesianSVC(**LONG, checkpoint=Checkpoint(tmp_path / "fit", passes=1))
    crashed(counted, model, *rows(), crash_at=5)
    return model, rows(), tmp_path / "fit"


def test_other_parameters_are_refused_by_name(half):
    model, data, path = half
    before = path.read_bytes()
    other = clone(model).set_params(tol=0.5, kernel=KERNEL + Constant(1.0))
    with pytest.raises(ValueError, match=r"another fit \(which differs in kernel, tol\): delete it .* choose another"):
        other.fit(*data)
    with pytest.raises(ValueError, match="which differs in estimator"):
        BayesianLinearSVC(checkpoint=path).fit(*data)
    with pytest.raises(ValueError, match="differs in random_state"):
        clone(model).set_params(random_state=1).fit(*data)
    assert path.read_bytes() == before
    same = clone(model).set_params(verbose=False, n_jobs=2, max_time=1e6, checkpoint=path)
    assert same.fit(*data).n_iter_ > 5


@pytest.mark.parametrize("change", ["entry", "label", "weight", "order", "classes"])
def test_other_data_are_refused(change, half):
    model, (X, y), _ = half
    weight, what = None, "labels or weights"
    if change == "entry":
        X, what = X.copy(), "rows"
        X[17, 1] = np.nextafter(X[17, 1], 1)
    elif change == "label":
        y = np.where(np.arange(len(y)) == 5, 1 - y, y)
    elif change == "weight":
        weight = np.where(np.arange(len(y)) == 5, 2.0, 1.0)
    elif change == "order":
        X, y, what = X[::-1], y[::-1], "rows, labels or weights"
    else:
        y, what = y + 1, "classes"
    with pytest.raises(ValueError, match=rf"another fit \(which differs in {what}\)"):
        clone(model).fit(X, y, weight)


def test_damaged_files_are_refused_and_left_alone(half):
    model, data, path = half
    good = path.read_bytes()
    for bad in (b"", good[: len(good) // 2], good[:1000] + b"x" + good[1001:], b"something else"):
        path.write_bytes(bad)
        with pytest.raises(StoreError, match=r"damaged.*Delete it to start the fit again"):
            clone(model).fit(*data)
        assert path.read_bytes() == bad
    path.write_bytes(good)
    clone(model).fit(*data)
    assert not path.exists()


def test_files_of_other_kinds_are_refused(half, tmp_path):
    model, data, path = half
    path.unlink()
    fitted = clone(model).fit(*data)
    fitted.save(path)
    with pytest.raises(ValueError, match="holds a model, not a checkpoint"):
        clone(model).fit(*data)
    for value in ({"format": 99}, {}, 3):
        write(path, value, "checkpoint")
        with pytest.raises(ValueError, match="another version of softmargin"):
            clone(model).fit(*data)
    with pytest.raises(ValueError, match="no directory"):
        clone(model).set_params(checkpoint=tmp_path / "none" / "fit").fit(*data)
    with pytest.raises(StoreError, match="this is a directory"):
        clone(model).set_params(checkpoint=tmp_path).fit(*data)


@pytest.mark.parametrize(("passes", "error"), [(1, errno.ENOSPC), ("auto", errno.EIO)])
def test_a_full_disk_ends_no_fit(passes, error, counted, tmp_path, monkeypatch):
    data, path, sync, calls = rows(), tmp_path / "fit", os.fsync, []
    model = BayesianSVC(**LONG, checkpoint=Checkpoint(path, passes=passes))
    whole = counted.fit(clone(model).set_params(checkpoint=None), *data)

    def full(handle):
        calls.append(handle)
        if len(calls) > 9:
            raise OSError(error, os.strerror(error))
        sync(handle)

    monkeypatch.setattr(archive.os, "fsync", full)
    monkeypatch.setattr("softmargin.checkpoint._REST", 0.0)
    with pytest.warns(RuntimeWarning, match="could not be written.*unchanged.*The fit continues"):
        same = clone(model).fit(*data)
    assert_same(same, whole)
    assert not list(tmp_path.iterdir())
    del calls[:]
    crashed(counted, model, *data, crash_at=9)
    assert [file.name for file in tmp_path.iterdir()] == ["fit"]
    monkeypatch.setattr(archive.os, "fsync", sync)
    assert_same(counted.fit(clone(model), *data), whole)
    assert whole.n_iter_ - 8 < counted.n < whole.n_iter_  # on from what had been written before


def test_a_disk_that_is_full_at_the_start_is_told_at_once(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        BayesianLinearSVC(checkpoint=tmp_path / "fit").fit(*rows())


def test_an_interrupted_fit_is_a_model_and_goes_on(tmp_path, monkeypatch):
    data, path = rows(), tmp_path / "fit"
    model = BayesianSVC(**LONG, checkpoint=path)
    whole = clone(model).fit(*data)
    with monkeypatch.context() as patch:
        stats, calls = Problem.stats, []

        def interrupted(problem, belief):
            calls.append(belief)
            if len(calls) == 5:
                raise KeyboardInterrupt
            return stats(problem, belief)

        patch.setattr(Problem, "stats", interrupted)
        with pytest.warns(InterruptedFitWarning):
            part = clone(model).fit(*data)
    assert (part.stop_reason_, part.n_iter_) == ("interrupt", 4)
    assert path.exists()
    assert_same(clone(model).fit(*data), whole)
    assert not path.exists()


@pytest.mark.filterwarnings("ignore:Time was up")
def test_a_fit_that_is_out_of_time_goes_on_with_new_time(tmp_path):
    data, path = rows(), tmp_path / "fit"
    model = BayesianSVC(**LONG, checkpoint=path)
    whole = clone(model).fit(*data)
    for most in range(1, 4):
        part = clone(model).set_params(max_time=1e-9).fit(*data)
        assert (part.stop_reason_, part.n_iter_) == ("time", 2), most  # the prior, and one step
        assert path.exists()
    end = clone(model).set_params(max_time=1e6).fit(*data)
    assert_same(end, whole)
    seconds = [entry["seconds"] for entry in end.history_]
    assert seconds == sorted(seconds)


def test_writing_waits_while_it_costs_too_much(counted, tmp_path, monkeypatch):
    data, written = rows(), []
    monkeypatch.setattr("softmargin.checkpoint.write", lambda *args: (time.sleep(0.02), written.append(args)))
    model = BayesianSVC(**LONG, checkpoint=tmp_path / "fit")
    whole = counted.fit(clone(model), *data)
    assert len(written) <= 1 + whole.history_[-1]["seconds"] / 0.4 + 1
    for often, least in ((1, whole.n_iter_), (4, whole.n_iter_ // 4)):
        del written[:]
        counted.fit(clone(model).set_params(checkpoint=Checkpoint(tmp_path / "fit", passes=often)), *data)
        assert least <= len(written) <= least + 4


def test_a_kill_leaves_a_fit_to_go_on_from(tmp_path):
    code = """
import os, sys, signal
import numpy as np
from softmargin import BayesianSVC
from softmargin.checkpoint import Checkpoint
from softmargin.engine import Problem
from softmargin.kernels import RBF
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 2))
path, kill_at, stats, calls = sys.argv[1], int(sys.argv[2]), Problem.stats, []

def watched(problem, belief):
    calls.append(0)
    if len(calls) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return stats(problem, belief)

Problem.stats = watched
model = BayesianSVC(RBF(), tune=None, n_inducing=9, random_state=0, checkpoint=Checkpoint(path, passes=1))
model.fit(X, X[:, 0] + 0.5 * rng.normal(size=200) > 0)
print(len(calls), model.bound_.hex())
"""
    source = str(Path(softmargin.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def child(kill_at):
        command = [sys.executable, "-c", code, str(tmp_path / "fit"), str(kill_at)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    n_passes, bound = child(0).stdout.split()
    killed = child(4)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (tmp_path / ".fit.0123456789ab.tmp").write_bytes(b"what a kill while writing leaves")
    assert child(0).stdout.split() == [str(int(n_passes) - 3), bound]
    assert not list(tmp_path.iterdir())


# Parts -------------------------------------------------------------------------------------------


def test_checkpoints_are_checked_copied_and_stored(tmp_path):
    given = Checkpoint(tmp_path / "fit", passes=3, seconds=2.5)
    assert repr(given) == f"Checkpoint(path={str(tmp_path / 'fit')!r}, passes=3, seconds=2.5)"
    for value in (given, tmp_path / "fit", "fit"):
        model = BayesianLinearSVC(checkpoint=value)
        assert clone(model).checkpoint == value
        model.save(tmp_path / "model")
        assert load(tmp_path / "model").checkpoint == value
    for bad in ({"passes": 0}, {"passes": "often"}, {"seconds": 0}, {"path": 3}, {"path": ""}):
        with pytest.raises(ValueError, match="must be"):
            Checkpoint(**{"path": "fit"} | bad)
    with pytest.raises(ValueError, match="checkpoint must be a path"):
        BayesianLinearSVC(checkpoint=7).fit(*rows())


def test_digests_tell_values_apart():
    assert digest((1.0, np.arange(3))) == digest((1.0, np.arange(3)))
    values = [1.0, 1, np.arange(3), np.arange(3.0), np.arange(3).astype(np.int32), KERNEL, (np.arange(3),), None]
    assert len({digest(value) for value in values}) == len(values)


def test_sums_belong_to_one_pass(tmp_path):
    journal = Journal(Checkpoint(tmp_path / "fit", seconds=1e-9))
    journal.is_open = True
    tag, *_ = journal.part_of((1.0, np.arange(3)))
    journal.keep_part(tag, 7, 3.5)
    assert journal.part_of((1.0, np.arange(3))) == (tag, 7, 3.5)
    assert journal.part_of((2.0, np.arange(3)))[1:] == (0, None)
    assert journal.part_of(lambda: None) == ("", 0, None)  # what files do not hold has no name


def test_tensors_come_back_as_such():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(4.0, dtype=torch.float64)
    value = {"a": [tensor, (tensor, 3)], "b": np.arange(2)}
    kept = _on_host(value, {})
    assert isinstance(kept["a"][0], OnDevice)
    assert kept["a"][0].array is kept["a"][1][0].array
    back = _where_it_was(kept, {})
    assert torch.equal(back["a"][0], tensor)
    assert back["a"][0] is back["a"][1][0]


def test_a_journal_without_a_file_keeps_nothing():
    journal = Journal()
    page = journal.page("ascent")
    page.note({"a": 1})
    page.finish({"a": 2})
    assert page.read() is None
    assert page.found(lambda: 3) == 3
