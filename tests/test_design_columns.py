import copy
import pickle
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from softmargin.design import Design, nesting
from softmargin.design.levels import Levels


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "age": [31.0, np.nan, 52.0, 47.0],
            "dose": [1, 2, 2, 3],
            "drug": ["b", "a", "c", "b"],
            "clinic": ["west", "east", "west", "east"],
            "patient": [9, 4, 9, 7],
        }
    )


def test_all_columns_but_the_groups_are_fixed_effects(frame):
    design = Design.from_columns(frame, "clinic")
    assert design.fixed_names == ("age", "dose", "drug[b]", "drug[c]", "patient")
    assert design.intercept
    assert design.n_fixed == 5
    expected = [[31, 1, 1, 0, 9, 1], [np.nan, 2, 0, 0, 4, 0], [52, 2, 0, 1, 9, 1], [47, 3, 1, 0, 7, 0]]
    assert_array_equal(design.matrix(frame), expected)
    (clinic,) = design.factors
    assert clinic[:5] == ("clinic", ("Intercept",), True, (), 5)
    assert clinic.levels.tolist() == ["east", "west"]
    assert not clinic.correlated


def test_slopes_vary_by_group(frame):
    design = Design.from_columns(frame, {"patient": ["dose", "age"], "clinic": "dose", ("clinic", "patient"): None})
    frame = frame.fillna({"age": 40})
    assert design.fixed_names == ("age", "dose", "drug[b]", "drug[c]")
    matrix = design.matrix(frame)
    patient, clinic, both = design.factors
    assert patient.columns == ("Intercept", "dose", "age")
    assert patient.correlated
    assert_array_equal(matrix[:, list(patient.slopes)], frame[["dose", "age"]])
    assert_array_equal(matrix[:, patient.code], [2, 0, 2, 1])
    assert_array_equal(matrix[:, list(clinic.slopes)], frame[["dose"]])
    assert both.name == "clinic:patient"
    assert both.levels.tolist() == [("east", 4), ("east", 7), ("west", 9)]
    assert_array_equal(matrix[:, both.code], [2, 0, 2, 1])
    assert design.n_columns == matrix.shape[1] == 4 + 3 + 3


def test_arrays_have_positions_for_names():
    X = np.array([[0.5, 3, 1], [1.5, 7, 1], [np.nan, 3, 2]], dtype=np.float32)
    design = Design.from_columns(X, [1, -1], splines=())
    assert design.fixed_names == ("x0",)
    assert [factor.name for factor in design.factors] == ["x1", "x2"]
    assert [factor.levels.tolist() for factor in design.factors] == [[3, 7], [1, 2]]
    assert_array_equal(design.matrix(X), [[0.5, 0, 0], [1.5, 1, 0], [np.nan, 0, 1]])
    assert design.matrix(X).dtype == np.float64
    named = Design.from_columns(X, 1, feature_names=["a", "b", "c"])
    assert (named.fixed_names, named.factors[0].name) == (("a", "c"), "b")
    with pytest.raises(ValueError, match="array of 3 columns"):
        design.matrix(X[:, :2])
    with pytest.raises(ValueError, match=r"no column 5; there are 0, 1, 2\."):
        Design.from_columns(X, 5)
    with pytest.raises(ValueError, match="feature_names has 2 names for 3 columns"):
        Design.from_columns(X, 1, feature_names=["a", "b"])


def test_arrays_of_objects_may_hold_text():
    X = np.array([[1, "u"], [None, "v"], [2.5, "u"]], dtype=object)
    design = Design.from_columns(X, [])
    assert design.fixed_names == ("x0", "x1[v]")
    assert_array_equal(design.matrix(X), [[1, 0], [np.nan, 1], [2.5, 0]])
    with pytest.raises(ValueError, match="pass a frame"):
        Design.from_columns(X.astype(str), [])


def test_polars_is_as_good_as_pandas(frame):
    other = pl.DataFrame({name: frame[name].to_list() for name in frame}).with_columns(pl.col("age").fill_nan(None))
    for columns in (frame, other):
        design = Design.from_columns(columns, ["clinic", "patient"])
        assert design.fixed_names == ("age", "dose", "drug[b]", "drug[c]")
        assert_array_equal(design.matrix(frame), design.matrix(other))
    enum = other.with_columns(pl.col("drug").cast(pl.Enum(["c", "b", "a", "never"])))
    assert Design.from_columns(enum, ["clinic", "patient"]).fixed_names[2:] == ("drug[b]", "drug[a]")


def test_no_intercept_keeps_the_first_level_of_the_first_category():
    frame = pd.DataFrame({"a": ["u", "v"], "b": ["s", "t"], "g": [1, 2]})
    assert Design.from_columns(frame, "g", intercept=False).fixed_names == ("a[u]", "a[v]", "b[t]")
    assert Design.from_columns(frame, "g").fixed_names == ("a[v]", "b[t]")


def test_declared_categories_stay_categories_and_keep_a_declared_order(frame):
    frame["dose"] = pd.Categorical(frame["dose"])
    frame["drug"] = pd.Categorical(frame["drug"], categories=["c", "z", "b", "a"], ordered=True)
    design = Design.from_columns(frame, ["patient", "clinic"])
    assert design.fixed_names == ("age", "dose[2]", "dose[3]", "drug[b]", "drug[a]")
    assert_array_equal(design.matrix(frame)[:, 1:5], [[0, 0, 1, 0], [1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 1, 0]])


def test_nullable_numbers_are_numbers(frame):
    nullable = frame.assign(dose=pd.array([1, None, 2, 3], dtype="Int64"), flag=pd.array([True, False, None, True]))
    design = Design.from_columns(nullable, ["patient", "clinic", "drug"])
    nan = np.nan
    assert_array_equal(design.matrix(nullable)[:, :3], [[31, 1, 1], [nan, nan, 0], [52, 2, nan], [47, 3, 1]])


def as_category(labels):
    return labels if isinstance(labels[0], tuple) else pd.Categorical(labels)  # pandas takes tuples apart


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "c", "a"],
        [3, -1, 2**60 + 1, -1],
        [2.0, 1.0, 3.0, 1.0],
        [2.5, 1.5, 3.5, 1.5],
        [True, False, True, False],
        [datetime(2024, 1, 2), datetime(2023, 1, 1), datetime(2025, 1, 1), datetime(2023, 1, 1)],
        [("s", 2), ("s", 1), ("t", 0), ("s", 1)],
    ],
)
@pytest.mark.parametrize("container", [list, as_category])
def test_group_codes_follow_the_sorted_labels_of_any_kind(labels, container, rng):
    frame = pd.DataFrame({"g": container(labels)})
    design = Design.from_columns(frame, "g")
    expected = [sorted(set(labels)).index(label) for label in labels]
    assert_array_equal(design.matrix(frame)[:, 0], expected)
    shuffled = frame.sample(frac=1, random_state=0)
    assert Design.from_columns(shuffled, "g").factors[0].levels.tolist() == design.factors[0].levels.tolist()
    assert_array_equal(design.matrix(shuffled)[:, 0], np.array(expected)[shuffled.index])


def test_labels_that_cannot_be_compared_still_have_an_order():
    frame = pd.DataFrame({"g": ["b", 2, "a", 1]}, dtype=object)
    assert Design.from_columns(frame, "g").factors[0].levels.tolist() == [1, 2, "a", "b"]


def test_whole_numbers_are_the_same_labels_as_floats_and_objects():
    levels = Levels.of(np.array([3.0, 1.0]))
    assert levels.labels.dtype == np.int64
    for values in (np.array([1, 3, 2]), np.array([1.0, 3.0, 2.5]), np.array([1, 3, "1"], dtype=object)):
        assert_array_equal(levels.codes(values), [0, 1, -1])


def test_new_groups_have_the_code_minus_one(frame):
    design = Design.from_columns(frame, ["clinic", "patient", ("clinic", "patient")])
    new = frame.assign(clinic=["east", "north", "west", "west"], patient=[9, 9, 8, 9])
    assert_array_equal(design.matrix(new)[:, -3:], [[0, 2, -1], [-1, 2, -1], [1, -1, -1], [1, 2, 2]])


def test_large_tables_agree_with_a_loop(rng):
    frame = pd.DataFrame({"a": rng.integers(0, 300, 20_000), "b": rng.choice(["p", "q", "r"], 20_000)})
    design = Design.from_columns(frame, ["a", "b", ("b", "a")])
    matrix, factors = design.matrix(frame), design.factors
    pairs = sorted({(b, a) for a, b in zip(frame["a"], frame["b"], strict=True)})
    assert factors[2].levels.tolist() == pairs
    place = {pair: code for code, pair in enumerate(pairs)}
    codes = [place[b, a] for a, b in zip(frame["a"], frame["b"], strict=True)]
    assert_array_equal(matrix[:, 2], codes)


# Errors ------------------------------------------------------------------------------------------


def test_absent_columns_are_named_with_near_ones(frame):
    design = Design.from_columns(frame, "clinic")
    with pytest.raises(ValueError, match=r"no column 'patient'; did you mean 'patients'\?"):
        design.matrix(frame.rename(columns={"patient": "patients"}))
    with pytest.raises(ValueError, match="no column 'q'; there are 'age', 'dose', 'drug', 'clinic', 'patient'"):
        Design.from_columns(frame, "q")
    with pytest.raises(ValueError, match="2 columns named 'age'"):
        design.matrix(pd.concat([frame, frame[["age"]]], axis=1))


def test_unknown_levels_of_fixed_effects_are_named(frame):
    design = Design.from_columns(frame, "clinic")
    with pytest.raises(ValueError, match=r"'drug' has the level 'd', not seen .* known ones are 'a', 'b', 'c'"):
        design.matrix(frame.assign(drug=["a", "d", "d", "b"]))
    with pytest.raises(ValueError, match="'age' held numbers"):
        design.matrix(frame.assign(age=["a", "d", "d", "b"]))


def test_gaps_are_refused_where_they_are_not_modelled(frame):
    gap = [None, "x", None, "y"]
    with pytest.raises(ValueError, match="'clinic' is missing in 2 rows: every row needs a group"):
        Design.from_columns(frame.assign(clinic=gap), "clinic")
    with pytest.raises(ValueError, match="'clinic' is missing in 2 rows"):
        Design.from_columns(frame, "clinic").matrix(frame.assign(clinic=pd.Categorical(gap)))
    with pytest.raises(ValueError, match="'drug' is missing in 2 rows: missing values are modelled in numeric"):
        Design.from_columns(frame.assign(drug=gap), "clinic")
    with pytest.raises(ValueError, match="'age' is missing in 1 row: a random slope needs it"):
        Design.from_columns(frame, {"clinic": ["age"]}).matrix(frame)
    with pytest.raises(ValueError, match="'patient' is missing in 1 row"):
        Design.from_columns(frame, "patient").matrix(frame.assign(patient=[1, np.nan, 2, 3]))


def test_other_nonsense_is_refused(frame):
    with pytest.raises(ValueError, match="'clinic' cannot be both a group and a slope"):
        Design.from_columns(frame, {"patient": ["clinic"], "clinic": []})
    with pytest.raises(ValueError, match="no rows"):
        Design.from_columns(frame.iloc[:0], "clinic")
    with pytest.raises(ValueError, match="holds dates"):
        Design.from_columns(frame.assign(day=pd.Timestamp("2024-01-01")), "clinic")
    with pytest.raises(ValueError, match="'age' is infinite in 1 row"):
        Design.from_columns(frame, "clinic").matrix(frame.assign(age=[1, np.inf, 2, 3]))
    names = pd.DataFrame({"id": [f"p{i}" for i in range(1500)], "g": 1})
    with pytest.raises(ValueError, match="'id' has 1500 levels, too many for fixed effects"):
        Design.from_columns(names, "g")
    with pytest.raises(ValueError, match="two dimensions, got 1"):
        Design.from_columns(np.ones(3), 0)


def test_designs_can_be_pickled_and_copied_and_do_not_change_their_input(frame):
    before = frame.copy()
    design = Design.from_columns(frame, {"clinic": ["dose"], "patient": []})
    for other in (pickle.loads(pickle.dumps(design)), copy.deepcopy(design)):
        assert_array_equal(other.matrix(frame), design.matrix(frame))
        assert other.factors[0].levels.tolist() == ["east", "west"]
    pd.testing.assert_frame_equal(frame, before)


def test_no_rows_make_an_empty_matrix(frame):
    assert Design.from_columns(frame, ["clinic"]).matrix(frame.iloc[:0]).shape == (0, 6)


# Nesting -----------------------------------------------------------------------------------------


def naive_parents(child, parent):
    found = {}
    for c, p in zip(child, parent, strict=True):
        if found.setdefault(c, p) != p:
            return None
    return [found[c] for c in sorted(found)]


def test_chains_start_at_the_finest_and_leave_the_crossed(rng):
    district = np.repeat(np.arange(3), 40)
    school = np.repeat(np.arange(12), 10)
    pupil = np.repeat(np.arange(60), 2)
    year = np.tile(np.arange(4), 30)
    shuffle = rng.permutation(120)
    codes = [year[shuffle], school[shuffle], district[shuffle], pupil[shuffle]]
    found = nesting(codes, [4, 12, 3, 60])
    assert (found.chain, found.crossed) == ((3, 1, 2), (0,))
    assert_array_equal(found.parents[0], naive_parents(pupil, school))
    assert_array_equal(found.parents[1], naive_parents(school, district))


def test_the_chain_leaves_the_fewest_weights_outside():
    fine = np.arange(24)
    left, right = fine // 4, fine % 5
    assert naive_parents(left, right) is None
    assert nesting([right, left, fine], [5, 6, 24]).chain == (2, 1)
    assert nesting([right, left, fine], [5, 6, 24], [3, 1, 1]).chain == (2, 0)
    assert nesting([fine % 4, fine], [4, 24]).chain == (1, 0)
    # Through the smaller factor the chain goes on, and takes more along.
    coarse = right // 2
    assert nesting([left, right, coarse, fine], [6, 5, 3, 24]).chain == (3, 1, 2)


def test_crossed_factors_and_single_ones():
    a, b = np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3)
    assert nesting([a, b], [3, 4]) == ((1,), (), (0,))
    assert nesting([a], [3]) == ((0,), (), ())
    assert nesting([], []) == ((), (), ())


def test_labels_used_again_within_parents_nest_only_together():
    frame = pd.DataFrame({"school": ["s", "s", "t", "t"], "room": [1, 2, 1, 2]})
    design = Design.from_columns(frame, ["school", "room"])
    assert design.nesting(design.matrix(frame)).crossed == (1,)
    design = Design.from_columns(frame, ["school", ("school", "room")])
    found = design.nesting(design.matrix(frame))
    assert found.chain == (1, 0)
    assert_array_equal(found.parents[0], [0, 0, 1, 1])
    unique = frame.assign(room=["s1", "s2", "t1", "t2"])
    design = Design.from_columns(unique, ["school", "room"])
    assert design.nesting(design.matrix(unique)).chain == (1, 0)
