"""Model files: what comes back is what was saved, and nothing else does."""

import contextlib
import dataclasses
import errno
import hashlib
import io
import json
import math
import os
import pickle
import random
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from references_store import KERNEL, MODELS, PLAIN, clinics, fitted, moons
from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC, FourierFeatures
from softmargin.gaussian import Belief
from softmargin.store import StoreError, archive, load, read, registry, save, write
from softmargin.store.archive import FORMAT

N_MUTANTS = 10_000


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
    with pytest.raises(StoreError, match="lies within more than"):
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


@pytest.fixture
def small():
    """A model whose file is small, and some rows."""
    X, y = moons()
    return BayesianLinearSVC(random_state=0, link="probit").fit(X, y), X


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


# Reading what others wrote -----------------------------------------------------------------------


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def packed(members, path, manifest=None, comment=None, listed=None, deflated=None):
    """A file of members with hashes that are right, whatever they are."""
    members = {name: content for name, content in members.items() if name != "manifest.json"}
    hashes = {name: [len(data), hashlib.sha256(data).hexdigest()] for name, data in (listed or members).items()}
    whole = {"format": FORMAT, "kind": "model", "softmargin": "1", "members": hashes} | (manifest or {})
    text = json.dumps(whole).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in [*members.items(), ("manifest.json", text)]:
            file.writestr(name, content, zipfile.ZIP_DEFLATED if name == deflated else zipfile.ZIP_STORED)
        file.comment = comment or hashlib.sha256(text).hexdigest().encode()
    return path


def packed_bytes(members):
    file = io.BytesIO()
    packed(members, file)
    return file.getvalue()


def overwritten(path, content):
    """The same file with other bytes, which takes less time than another."""
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.write(content)
        file.truncate()


@pytest.fixture
def good(small, tmp_path):
    save(small[0], tmp_path / "good")
    return members_of((tmp_path / "good").read_bytes())


def refused(path, match):
    with pytest.raises(StoreError, match=match) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_hashes_are_looked_at(good, tmp_path):
    load(packed(good, tmp_path / "a"))
    refused(packed(good, tmp_path / "a", comment=b"0" * 64), "manifest.json is not what was written")
    refused(packed(good, tmp_path / "a", listed=good | {"tree.json": b"{}"}), "members are not|not what was written")
    data = bytearray((tmp_path / "good").read_bytes())
    at = data.index(good["arrays/0.npy"])
    data[at + 130] ^= 1
    (tmp_path / "b").write_bytes(data)
    refused(tmp_path / "b", "cannot be read|not what was written")


def test_files_of_other_kinds_and_formats(good, tmp_path):
    refused(packed(good, tmp_path / "a", {"format": FORMAT + 1, "softmargin": "9.0"}), "softmargin 9.0 .* newer")
    refused(packed(good, tmp_path / "a", {"format": "1"}), "which is none")
    refused(packed(good, tmp_path / "a", {"kind": "checkpoint"}), "holds a checkpoint, not a model")
    refused(packed(good, tmp_path / "a", {"more": 1}), "manifest is not one")
    write(tmp_path / "c", [1], "model")
    refused(tmp_path / "c", "holds a list, not an estimator")
    for content in (b"", b"PK", b"\x80\x04]\x94.", (tmp_path / "good").read_bytes()[:-30]):
        (tmp_path / "d").write_bytes(content)
        refused(tmp_path / "d", "damaged")


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "arrays/../x.npy", "arrays/00.npy", "a.pkl", "C:\\x"])
def test_members_with_other_names(name, good, tmp_path):
    refused(packed(good | {name: b"x"}, tmp_path / "a"), "do not trust it")


def test_members_that_are_missing_or_too_many(good, tmp_path):
    refused(packed(good | {"arrays/99.npy": good["arrays/0.npy"]}, tmp_path / "a"), "missing")
    n = sum(name.startswith("arrays") for name in good)
    refused(packed(good | {f"arrays/{n}.npy": good["arrays/0.npy"]}, tmp_path / "a"), "belong to nothing")
    refused(packed({k: v for k, v in good.items() if k != "arrays/0.npy"}, tmp_path / "a"), "missing")
    refused(packed({k: v for k, v in good.items() if k != "tree.json"}, tmp_path / "a"), "there is no")
    listed = {k: v for k, v in good.items() if k != "manifest.json"}
    refused(packed(good | {f"arrays/{n}.npy": b""}, tmp_path / "a", listed=listed), "not those of its manifest")
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(packed(good, tmp_path / "b"), "a") as file:
        file.writestr("tree.json", good["tree.json"])
    refused(tmp_path / "b", "one name")


def test_bombs(good, tmp_path):
    refused(packed(good | {"tree.json": b" " * 10_000_000}, tmp_path / "a", deflated="tree.json"), "claims to be")
    refused(
        packed(good | {"arrays/0.npy": bytes(9_000_000)}, tmp_path / "a", deflated="arrays/0.npy"),
        "compressed in a way",
    )
    header = np.lib.format.magic(1, 0) + b"\x76\x00"
    for shape in ("(99999999999,)", "(4000000000, 4000000000)", "(0, 99999999999)"):
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
        refused(packed(good | {"arrays/0.npy": header + text}, tmp_path / "a"), "one of its arrays")
    refused(packed(good | {"tree.json": b"[" * 100_000}, tmp_path / "a"), "JSON cannot be read")
    refused(packed(good | {"tree.json": b"[" * 300 + b"]" * 300}, tmp_path / "a"), "lie within more")
    refused(packed(good | {"tree.json": b"1" * 5000}, tmp_path / "a"), "JSON cannot be read")
    refused(packed(good | {"tree.json": b"[NaN]"}, tmp_path / "a"), "NaN is no number")
    # A member whose declared size is more than the file has.
    data = (tmp_path / "good").read_bytes()
    at = data.rindex(b"PK\x01\x02")
    (tmp_path / "b").write_bytes(data[: at + 20] + b"\xff\xff\xff\x7f" * 2 + data[at + 28 :])
    refused(tmp_path / "b", "claim to be larger")


class Evil:
    def __reduce__(self):
        return os.mkdir, (str(Path(__file__).with_name("executed")),)


def with_array(descr, content):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}".encode()
    return np.lib.format.magic(1, 0) + len(text).to_bytes(2, "little") + text + content


def test_nothing_is_executed(good, tmp_path):
    bad = pickle.dumps(Evil())
    objects = io.BytesIO()
    np.save(objects, np.array([Evil()], dtype=object), allow_pickle=True)
    for content in (bad, objects.getvalue(), with_array("'|O'", bad), with_array("__import__('os')", bad)):
        refused(packed(good | {"arrays/0.npy": content}, tmp_path / "a"), "header|dtype")
    for name in (
        "os.system",
        "builtins.eval",
        "sklearn.Kernel",
        "sklearn.clone",
        "formulae.Environment",
        "Monitor",
        "type",
    ):
        node = {"class": name, "fields": {"command": "echo"}}
        refused(
            packed(good | {"tree.json": json.dumps(node).encode()}, tmp_path / "a"), "no class that softmargin makes"
        )
    assert not Path(__file__).with_name("executed").exists()


def changed(tree, change):
    tree = json.loads(tree)
    change(tree)
    return json.dumps(tree).encode()


@pytest.mark.parametrize(
    "name",
    ["__class__", "__dict__", "predict", "_view_of", "__init__", "_check_parameters", "a b", "classes__", "x__y"],
)
def test_attributes_that_are_not_found_by_a_fit(name, good, tmp_path):
    tree = changed(good["tree.json"], lambda tree: tree["fields"].update({name: 1}))
    refused(packed(good | {"tree.json": tree}, tmp_path / "a"), "finds nothing called")


@pytest.mark.parametrize(
    "callee", ["np.load", "np.fromfile", "np.f2py.os.system", "os.system", "np", "eval", "np.__class__", "np.vectorize"]
)
def test_formulas_cannot_call_what_they_like(callee, tmp_path):
    model = BayesianMixedSVC("state ~ np.log(age + 100) + (1|clinic)").fit(clinics())
    save(model, tmp_path / "good")
    members = members_of((tmp_path / "good").read_bytes())
    tree = members["tree.json"].replace(b'"callee":"np.log"', f'"callee":"{callee}"'.encode())
    assert tree != members["tree.json"]
    refused(packed(members | {"tree.json": tree}, tmp_path / "a"), "its formula calls")


def test_towers_of_powers_are_not_climbed(tmp_path):
    model = BayesianMixedSVC("state ~ I(dose + 2**3) + (1|clinic)").fit(clinics())
    save(model, tmp_path / "good")
    members = members_of((tmp_path / "good").read_bytes())
    tree = members["tree.json"].replace(b'{"value":2,', b'{"value":9,').replace(b'{"value":3,', b'{"value":999999999,')
    assert tree != members["tree.json"]
    refused(packed(members | {"tree.json": tree}, tmp_path / "a"), "large power")


# Ten thousand files ------------------------------------------------------------------------------


def bytes_changed(data, rng):
    """A file with some bytes flipped, cut out, put in, swapped, or without its end; half of the time near its end,
    where the directory is."""
    data, low = bytearray(data), rng.choice([0, len(data) - 1500])
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, size = rng.randrange(low, len(data)), rng.choice([1, 1, 4, 40])
        how = rng.randrange(6)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at : at + size] = rng.randbytes(len(data[at : at + size]))
        elif how == 2 and len(data) > low + 200:
            del data[at : at + size]
        elif how == 3:
            data[at:at] = rng.randbytes(size)
        elif how == 4:
            other = rng.randrange(len(data))
            data[at], data[other] = data[other], data[at]
        elif len(data) > low + 200 and rng.random() < 0.3:
            del data[at + 200 :]
    return bytes(data)


JUNK = [
    None,
    True,
    -1,
    0,
    7,
    2**62,
    1e308,
    "x",
    [],
    [[]],
    {},
    {"tuple": []},
    {"float": "nan"},
    {"int": "0x" + "f" * 99},
]
JUNK += [{"array": 0}, {"same": 0}, {"class": "Belief", "fields": {}}, {"class": "LogisticLink", "fields": {}}]
JUNK += [{"scalar": ["<f8", "00"]}, {"objects": [[2, -1], []]}, {"dtype": "O"}, {"random": [1, 2, 3, 4]}]


def places(node):
    """Every place in a tree of JSON that can hold something else."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, part in pairs:
        yield node, key
        yield from places(part)


def tree_changed(text, rng):
    """A tree with something else in one place, or two places swapped, or one left out."""
    tree = json.loads(text)
    spots = list(places(tree))
    (parent, key), (other, at) = rng.choice(spots), rng.choice(spots)
    how = rng.randrange(4)
    if how == 0:
        parent[key] = json.loads(json.dumps(other[at]))
    elif how == 1 and isinstance(parent, dict):
        parent[rng.choice(["__class__", "fields", "x", "array"])] = parent.pop(key)
    elif how == 2:
        del parent[key]
    else:
        parent[key] = rng.choice(JUNK)
    return json.dumps(tree).encode()


def array_changed(content, rng):
    """Another shape, dtype or content with a header that agrees."""
    array = np.load(io.BytesIO(content))
    changes = [
        lambda: array.reshape(-1),
        lambda: array[..., None],
        lambda: np.concatenate([np.atleast_1d(array)] * 2),
        lambda: np.atleast_1d(array)[:-1],
        lambda: array.astype("U8"),
        lambda: array.astype("f4") if array.dtype.kind == "f" else array.astype("S3"),
        lambda: np.full_like(array, rng.choice([0, 1])),
        lambda: np.full(array.shape, rng.choice([np.nan, np.inf, -1e300, 1e-300])),
        lambda: array.T,
    ]
    file = io.BytesIO()
    np.save(file, rng.choice(changes)(), allow_pickle=False)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "share"), [("linear logistic", 0.8), ("svc three classes", 0.15), ("mixed formula", 0.05)]
)
def test_thousands_of_changed_files_load_the_same_or_are_refused(name, share, tmp_path):
    rng = random.Random(0)
    model, X = fitted(name)
    X = X.iloc[:4] if hasattr(X, "iloc") else X[:4]
    save(model, tmp_path / "good")
    data, expected = (tmp_path / "good").read_bytes(), model.predict_proba(X)
    members, path, loaded, n = members_of(data), tmp_path / "changed", [0, 0], round(N_MUTANTS * share)
    for count in range(n):
        consistent = count % 4 == 0
        if not consistent:
            content = bytes_changed(data, rng)
        elif count % 8 == 0:
            content = packed_bytes(members | {"tree.json": tree_changed(members["tree.json"], rng)})
        else:
            which = rng.choice([member for member in members if member.startswith("arrays")])
            content = packed_bytes(members | {which: array_changed(members[which], rng)})
        overwritten(path, content)
        try:
            found = load(path)
        except StoreError:
            continue
        loaded[consistent] += 1
        if consistent:  # another model, which is one; it may ask for columns and labels that are not here
            with contextlib.suppress(ValueError) if name.startswith("mixed") else contextlib.nullcontext():
                assert found.predict_proba(X).shape == expected.shape
        else:
            assert_array_equal(found.predict_proba(X), expected)
    assert loaded[0] < n / 4
    assert loaded[1] < n / 4


# Other ways to keep a model ----------------------------------------------------------------------


def test_pickles_predict_alike(named):
    model, X = fitted(named)
    assert_same(answers(model, X), answers(pickle.loads(pickle.dumps(model)), X))


def test_skops_predicts_alike(named):
    skops = pytest.importorskip("skops.io")
    model, X = fitted(named)
    data = skops.dumps(model)
    same = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    assert_same(answers(model, X), answers(same, X))


def test_good_files_are_small(tmp_path):
    save(BayesianSVC(**PLAIN), tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 2000
