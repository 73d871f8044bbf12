"""Model files: what comes back is what was saved, and nothing else does."""

import dataclasses
import errno
import io
import json
import math
import pickle
import re

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from references_store import KERNEL, MODELS, PLAIN, clinics, fitted, members_of, moons, small_model
from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC, FourierFeatures
from softmargin.gaussian import Belief
from softmargin.store import StoreError, archive, load, read, registry, save, write

small = pytest.fixture(small_model)


@pytest.fixture(params=MODELS)
def named(request):
    return request.param


def assert_same(one, other, where="model"):
    """Equal in every part, types and dtypes included."""
    assert type(one) is type(other), where
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, where
        assert one.shape == other.shape, where
        if one.dtype == object:
            assert_same(one.ravel().tolist(), other.ravel().tolist(), where)
        else:
            assert one.tobytes() == other.tobytes(), where
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(), other.get_state(), where)
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for index, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{where}[{index}]")
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}[{key!r}]")
    elif isinstance(one, sk.Kernel):
        assert_same(one.get_params(deep=False), other.get_params(deep=False), where)
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}")
    elif scipy.sparse.issparse(one):
        assert_same(
            [one.shape, one.data, one.indices, one.indptr], [other.shape, other.data, other.indices, other.indptr]
        )
    elif isinstance(one, float) and math.isnan(one):
        assert math.isnan(other), where
    elif hasattr(one, "__dict__") and type(one).__module__.startswith(("softmargin", "formulae")):
        assert_same(vars(one), vars(other), where)
    else:
        assert one == other, where


def answers(model, X):
    """All that a model can be asked."""
    found = {"moments": np.array(model.latent_mean_and_variance(X)), "p": model.predict_proba(X)}
    found |= {"labels": model.predict(X), "scores": model.decision_function(X)}
    if hasattr(model, "sample_latent"):
        rows = X.iloc[:12] if hasattr(X, "iloc") else X[:12]
        found["draws"] = model.sample_latent(rows, 2, random_state=0)
    return found


def named_alike(value):
    """How a value is shown, wherever it lies in memory."""
    return re.sub("0x[0-9A-Fa-f]+", "", repr(value))


# Round trips -------------------------------------------------------------------------------------


def test_a_model_comes_back_bit_by_bit(named, tmp_path):
    model, X = fitted(named)
    save(model, tmp_path / "model")
    # Formulae cannot tell S(city) of a row without all cities.
    tree = json.loads(members_of((tmp_path / "model").read_bytes())["tree.json"])
    assert "design" in tree["fields"]["_view"]
    assert "rows" in tree["fields"]["_view"]
    same = load(str(tmp_path / "model"))
    assert list(vars(same)) == [*[name for name in vars(model) if name != "_view"], "_view"]
    for name, value in vars(model).items():
        if name != "_view":  # whose answers are compared below
            assert_same(value, vars(same)[name], name)
    assert_same(answers(model, X), answers(same, X))
    assert named_alike(same) == named_alike(model)
    assert named_alike(same.get_params()) == named_alike(model.get_params())
    assert named_alike(clone(same)) == named_alike(clone(model))


@pytest.mark.parametrize("name", ["svc", "svc batches of three", "linear batches", "machine batches", "machine cavi"])
def test_a_model_learns_on_as_if_nothing_had_happened(name, tmp_path):
    model, X = fitted(name)
    save(model, tmp_path / "model")
    same = load(tmp_path / "model")
    labels = model.classes_[np.arange(len(X)) % len(model.classes_)]
    for one in (model, same):
        one.partial_fit(X[::2], labels[::2])
    assert_same(answers(model, X), answers(same, X))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", ["svc gibbs", "linear gibbs", "mixed gibbs"])
def test_draws_go_to_arviz_alike(name, tmp_path):
    pytest.importorskip("arviz")
    model, _ = fitted(name)
    save(model, tmp_path / "model")
    one, other = model.to_arviz().posterior, load(tmp_path / "model").to_arviz().posterior
    assert list(one) == list(other)
    for name in one:
        assert_array_equal(one[name], other[name])


def test_a_saved_model_makes_the_same_file(tmp_path):
    model, _ = fitted("mixed formula")
    save(model, tmp_path / "one")
    save(load(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_models_without_a_fit_and_transformers(tmp_path):
    X, _ = moons()
    save(BayesianSVC(KERNEL, tune=None), tmp_path / "model")
    assert repr(load(tmp_path / "model")) == repr(BayesianSVC(KERNEL, tune=None))
    features = FourierFeatures(n_frequencies=5, random_state=0).fit(X)
    save(features, tmp_path / "features")
    assert_array_equal(load(tmp_path / "features").transform(X), features.transform(X))


def test_a_large_model_is_quick(tmp_path):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(512, 512)) for _ in range(6)]
    belief = Belief(parts[0][0], parts[0], np.float64(1.0), (parts[0].T, *parts))
    write(tmp_path / "large", belief, "checkpoint")
    assert (tmp_path / "large").stat().st_size < 1.01 * 7 * parts[0].nbytes + 20_000
    same = read(tmp_path / "large", "checkpoint")
    assert_same(belief, same)
    assert same.root is same.hyper[1]
    assert same.hyper[0].flags.f_contiguous


VALUES = {
    "plain": [None, True, 0, -1, 2**63, -(10**400), 0.1, -0.0, math.nan, math.inf, -math.inf, "ä\ud800\n", b"\0x"],
    "nested": {"a": (1, [2.0, ()]), (1, "b"): {None: []}, 3.5: slice(1, None, 2), True: slice(None)},
    "arrays": [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
        np.arange(24.0)[::-2],
        np.array(2.5),
        np.empty((0, 3)),
        np.array(["a", "bcd"]),
        np.array([b"a", b"bcd"]),
        np.array(["2024-02-29", "NaT"], dtype="M8[D]"),
        np.array([True, False]),
        np.array([1 + 2j], dtype=">c8"),
        np.array([np.nan, -0.0], dtype=np.float16),
        np.array([["a", 1], [None, (2, "b")]], dtype=object),
        np.broadcast_to(1.0, (2, 2)),
    ],
    "scalars": [np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("äb"), np.datetime64("2024-01-01", "ns")],
    "dtypes": [np.dtype("f4"), np.dtype(">i2"), np.dtype("U7")],
    "random": [np.random.RandomState(3)],
    "sparse": [scipy.sparse.csr_matrix([[0, 1.0], [2, 0]]), scipy.sparse.csr_array([[0, 1]], dtype=np.float32)],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_kind_come_back(name, tmp_path):
    write(tmp_path / "value", VALUES[name], "checkpoint")
    assert_same(VALUES[name], read(tmp_path / "value", "checkpoint"))


def test_what_is_one_object_stays_one(tmp_path):
    array, turned, rng = np.zeros(1000), np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2), np.random.RandomState(0)
    labels = np.array(["a", None], dtype=object)
    write(
        tmp_path / "value", [array, (array, turned, rng, labels), {"again": array}, turned, rng, labels], "checkpoint"
    )
    assert (tmp_path / "value").stat().st_size < 15_000
    one, (two, turned, rng, labels), three, turned_again, rng_again, labels_again = read(
        tmp_path / "value", "checkpoint"
    )
    assert one is two is three["again"]
    assert turned is turned_again
    assert turned.strides == (32, 96, 8)
    assert rng is rng_again
    assert labels is labels_again


# Classes -----------------------------------------------------------------------------------------


def test_no_two_classes_have_one_name_in_files():
    clashes = {name: kinds for name, kinds in registry.all_classes().items() if len(kinds) > 1}
    assert not clashes, "give the younger another name in softmargin.store.registry"


def test_no_optional_package_is_needed():
    for kind in registry.classes().values():
        assert not kind.__module__.startswith(("softmargin.nn", "softmargin.cli", "softmargin.plot"))


# What cannot be stored ---------------------------------------------------------------------------


class OwnKernel(sk.RBF):
    pass


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"kernel": lambda X, Z: X @ Z.T}, "model.kernel is a builtins.function"),
        ({"kernel": OwnKernel()}, "model.kernel is a test_store.OwnKernel"),
        ({"kernel": KERNEL + KERNEL, "class_weight": {0: object()}}, r"model.class_weight\[0\] is a builtins.object"),
        ({"random_state": np.random.default_rng(0)}, "model.random_state is a numpy.random._generator.Generator"),
        ({"inducing": np.zeros(2, dtype="f4,i4")}, "model.inducing has the dtype"),
        ({"inducing": np.ma.array([1.0], mask=[True])}, "model.inducing is a numpy.ma"),
    ],
)
def test_what_cannot_be_stored_is_named(settings, where, tmp_path):
    with pytest.raises(StoreError, match=where):
        save(BayesianSVC(**settings), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_tensors_and_other_objects_are_refused(tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(StoreError, match=r"checkpoint\['a'\]\[1\] is a torch.Tensor"):
        write(tmp_path / "value", {"a": [1, torch.zeros(2)]}, "checkpoint")
    with pytest.raises(StoreError, match="Only estimators"):
        save({"a": 1}, tmp_path / "model")
    deep = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(StoreError, match="is nested within more than"):
        write(tmp_path / "value", deep, "checkpoint")


def test_a_formula_may_only_compute(tmp_path):
    frame = clinics()
    model = BayesianMixedSVC("state ~ np.cumsum(dose) + (1|clinic)").fit(frame)
    with pytest.raises(StoreError, match=r"np.cumsum.*compute a column first"):
        save(model, tmp_path / "model")
    model = BayesianMixedSVC("state ~ I(2**3*dose) + I(np.log(age + 100)/3.0) + (1|clinic)").fit(frame)
    save(model, tmp_path / "model")
    assert_same(answers(model, frame), answers(load(tmp_path / "model"), frame))


def test_functions_that_are_undefined_at_one_value_do_not_matter(tmp_path):
    frame = clinics()
    frame.loc[frame.index[0], "dose"] = 0.5
    model = BayesianMixedSVC("state ~ B(city, 'Ulm') + (1|clinic)").fit(frame)
    save(model, tmp_path / "model")
    assert_same(answers(model, frame), answers(load(tmp_path / "model"), frame))


# Writing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize("what", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_leaves_the_old_file(call, what, small, tmp_path, monkeypatch):
    path = tmp_path / "model"
    save(BayesianSVC(), path)
    before = path.read_bytes()

    def fail(*_):
        raise what

    class Full(io.FileIO):
        def write(self, data):
            return fail() if self.tell() > 1000 else super().write(data)

    if call == "write":
        monkeypatch.setattr(archive, "open", Full, raising=False)
    else:
        monkeypatch.setattr(archive.os, call, fail)
    with pytest.raises(StoreError if isinstance(what, OSError) else KeyboardInterrupt) as caught:
        save(small[0], path)
    monkeypatch.undo()
    if isinstance(what, OSError):
        assert "No space left" in str(caught.value)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_the_new_file_is_complete_before_the_old_one_goes(small, tmp_path, monkeypatch):
    path, seen = tmp_path / "model", []
    save(BayesianSVC(), path)

    def replace(source, target):
        seen.append((isinstance(load(source), BayesianLinearSVC), isinstance(load(target), BayesianSVC)))

    monkeypatch.setattr(archive.os, "replace", replace)
    save(small[0], path)
    assert seen == [(True, True)]


def test_places_that_hold_no_file(small, tmp_path):
    model, X = small
    with pytest.raises(StoreError, match="this is a directory"):
        save(model, tmp_path)
    with pytest.raises(StoreError, match="there is no directory"):
        save(model, tmp_path / "no" / "model")
    with pytest.raises(StoreError, match="this is a directory"):
        load(tmp_path)
    with pytest.raises(StoreError, match=r"none.*could not be opened \(No such file"):
        load(tmp_path / "none")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    save(model, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert_same(answers(load(tmp_path / "file"), X), answers(model, X))


# Other ways to keep a model ----------------------------------------------------------------------


def assert_alike(one, other):
    """To rounding: memory that begins elsewhere may be summed in another order."""
    assert_array_equal(one.pop("labels"), other.pop("labels"))
    for name, values in one.items():
        assert_allclose(other[name], values, rtol=1e-9, atol=1e-9, err_msg=name)


def test_pickles_predict_alike(named):
    model, X = fitted(named)
    assert_alike(answers(model, X), answers(pickle.loads(pickle.dumps(model)), X))


def test_skops_predicts_alike(named):
    skops = pytest.importorskip("skops.io")
    model, X = fitted(named)
    data = skops.dumps(model)
    same = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    assert_alike(answers(model, X), answers(same, X))


def test_good_files_are_small(tmp_path):
    save(BayesianSVC(**PLAIN), tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 2000
