"""Model files that others wrote or that were damaged: the same model, or a refusal."""

import contextlib
import hashlib
import io
import json
import os
import pickle
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from references_store import clinics, fitted, members_of, small_model
from softmargin import BayesianMixedSVC
from softmargin.store import StoreError, load, save, write
from softmargin.store.archive import FORMAT

N_MUTANTS = 10_000

small = pytest.fixture(small_model)

# Reading what others wrote -----------------------------------------------------------------------


@pytest.mark.parametrize("path", [None, io.BytesIO(), 3])
def test_what_is_no_path_is_told(path, small):
    for attempt in (lambda: load(path), lambda: save(small[0], path)):
        with pytest.raises(StoreError, match="The path of a file is needed, as a string or a Path, but got"):
            attempt()


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
    refused(packed(good, tmp_path / "a", comment=b"0" * 64), "manifest.json was changed after it was written")
    refused(
        packed(good, tmp_path / "a", listed=good | {"tree.json": b"{}"}),
        "do not match|was changed after it was written",
    )
    data = bytearray((tmp_path / "good").read_bytes())
    at = data.index(good["arrays/0.npy"])
    data[at + 130] ^= 1
    (tmp_path / "b").write_bytes(data)
    refused(tmp_path / "b", "cannot be read|was changed after it was written")


def test_files_of_other_kinds_and_formats(good, tmp_path):
    refused(packed(good, tmp_path / "a", {"format": FORMAT + 1, "softmargin": "9.0"}), "softmargin 9.0 .* newer")
    refused(packed(good, tmp_path / "a", {"format": "1"}), "is not valid")
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
    refused(packed(good | {f"arrays/{n}.npy": good["arrays/0.npy"]}, tmp_path / "a"), "are not used")
    refused(packed({k: v for k, v in good.items() if k != "arrays/0.npy"}, tmp_path / "a"), "missing")
    refused(packed({k: v for k, v in good.items() if k != "tree.json"}, tmp_path / "a"), "there is no")
    listed = {k: v for k, v in good.items() if k != "manifest.json"}
    refused(packed(good | {f"arrays/{n}.npy": b""}, tmp_path / "a", listed=listed), "do not match its manifest")
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(packed(good, tmp_path / "b"), "a") as file:
        file.writestr("tree.json", good["tree.json"])
    refused(tmp_path / "b", "have the same name")


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
    refused(packed(good | {"tree.json": b"[" * 300 + b"]" * 300}, tmp_path / "a"), "are nested within more")
    refused(packed(good | {"tree.json": b"1" * 5000}, tmp_path / "a"), "JSON cannot be read")
    refused(packed(good | {"tree.json": b"[NaN]"}, tmp_path / "a"), "NaN is not a number")
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
            packed(good | {"tree.json": json.dumps(node).encode()}, tmp_path / "a"), "not a class that softmargin loads"
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
    refused(packed(good | {"tree.json": tree}, tmp_path / "a"), "has no attribute")


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
    refused(packed(members | {"tree.json": tree}, tmp_path / "a"), "to a large power")


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
