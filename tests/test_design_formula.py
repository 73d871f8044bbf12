import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softmargin.design import Design

pytest.importorskip("formulae")


def infections(rng):
    n = 40
    return pd.DataFrame(
        {
            "infected": rng.choice(["no", "yes"], n),
            "month": rng.integers(0, 12, n).astype(float),
            "dose": rng.normal(size=n),
            "treatment": rng.choice(["b", "a", "c"], n),
            "clinic": rng.permutation(np.repeat([0, 1, 2, 3], 10)),
            "patient": rng.permutation(np.tile(np.arange(5), 8)),
            "first name": rng.normal(size=n),
        },
        index=rng.permutation(n) + 100,
    )


frame = pytest.fixture(infections)


def dummy(frame, *levels):
    return np.column_stack([frame["treatment"] == level for level in levels]).astype(float)


def made(formula, frame):
    design = Design.from_formula(formula, frame)
    return design, design.matrix(frame)


# The fixed part ----------------------------------------------------------------------------------


def test_main_effects_and_interactions(frame):
    design, matrix = made("infected ~ month*treatment + (1|patient)", frame)
    names = ("month", "treatment[b]", "treatment[c]", "month:treatment[b]", "month:treatment[c]")
    assert design.fixed_names == names
    month, coded = frame[["month"]].to_numpy(), dummy(frame, "b", "c")
    assert_array_equal(matrix, np.hstack([month, coded, month * coded, frame[["patient"]]]))
    assert design.intercept
    assert design.inputs == ("month", "treatment", "patient")
    (patient,) = design.factors
    assert patient[:5] == ("patient", ("Intercept",), True, (), 5)
    assert patient.levels.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("formula", ["~ dose", "dose", "~ 1 + dose", "infected ~ dose", "~ dose + dose"])
def test_the_response_may_be_left_out(formula, frame):
    design, matrix = made(formula, frame)
    assert_array_equal(matrix, frame[["dose"]])
    assert (design.intercept, design.factors) == (True, ())


@pytest.mark.parametrize(
    "formula", ["~ 0 + treatment", "~ treatment - 1", "~ -1 + treatment", "~ (1|clinic) - 1 + treatment"]
)
def test_without_an_intercept_a_category_has_all_its_levels(formula, frame):
    design, matrix = made(formula, frame)
    assert design.fixed_names == ("treatment[a]", "treatment[b]", "treatment[c]")
    assert_array_equal(matrix[:, :3], dummy(frame, "a", "b", "c"))
    assert not design.intercept


def test_functions_and_quoted_names(frame):
    design, matrix = made("~ np.exp(dose) + I(dose**2) + {month - 1} + `first name` + C(clinic)", frame)
    expected = [np.exp(frame["dose"]), frame["dose"] ** 2, frame["month"] - 1, frame["first name"]]
    assert_allclose(matrix[:, :4], np.column_stack(expected))
    assert_array_equal(matrix[:, 4:], frame["clinic"].to_numpy()[:, None] == [1, 2, 3])
    assert design.fixed_names[3:] == ("first name", "C(clinic)[1]", "C(clinic)[2]", "C(clinic)[3]")


def test_small_integers_and_truth_values_are_numbers(frame):
    frame["count"] = np.arange(40, dtype=np.uint8)
    frame["flag"] = frame["dose"] > 0
    design, matrix = made("~ count + flag + I(count**2) + I(flag + flag) + C(flag)", frame)
    count, flag = np.arange(40.0), frame["flag"].to_numpy(dtype=float)
    assert_array_equal(matrix, np.column_stack([count, flag, count**2, 2 * flag, flag]))
    assert design.fixed_names[-1] == "C(flag)[1]"


def test_new_integers_may_be_floats(frame):
    design, matrix = made("~ C(clinic) + patient", frame)
    assert_array_equal(design.matrix(frame.astype({"clinic": float, "patient": float})), matrix)
    assert_array_equal(design.matrix(frame.astype({"clinic": np.uint8, "patient": np.uint8})), matrix)
    for clinic in (9, 1.5):
        with pytest.raises(ValueError, match=rf"levels \({clinic}.*\) in 'C\(clinic\)' are not present"):
            design.matrix(frame.assign(clinic=clinic))


def test_order_of_categories_where_declared(frame):
    frame["treatment"] = pd.Categorical(frame["treatment"], categories=["c", "a", "z", "b"], ordered=True)
    assert made("~ treatment", frame)[0].fixed_names == ("treatment[a]", "treatment[b]")


def test_new_rows_use_what_was_learnt(frame):
    formula = "~ center(month) + scale(dose) + bs(month, df=5) + treatment"
    design, matrix = made(formula, frame)
    assert_allclose(matrix[:, 0], frame["month"] - frame["month"].mean())
    assert_allclose(matrix[:, 1], (frame["dose"] - frame["dose"].mean()) / frame["dose"].std(ddof=0))
    for rows in ([0], [7, 3, 3], list(range(40))[::-1]):
        assert_allclose(design.matrix(frame.iloc[rows]), matrix[rows], atol=1e-12)
    assert_allclose(design.matrix(frame.iloc[[0]].assign(month=100.0))[0, 0], 100 - frame["month"].mean())


def test_polars_frames_give_the_same_numbers(frame):
    other = pl.DataFrame({name: frame[name].to_list() for name in frame})
    formula = "infected ~ month*treatment + s(dose, df=4) + (dose|patient) + (1|clinic)"
    design, matrix = made(formula, other)
    assert_array_equal(matrix, made(formula, frame)[1])
    assert_array_equal(design.response(other), frame["infected"])


# Gaps --------------------------------------------------------------------------------------------


def test_gaps_pass_through_and_spoil_nothing(frame):
    holes = frame.copy()
    holes.iloc[[3, 8], 1] = np.nan
    holes.iloc[[8, 20], 2] = np.nan
    design, matrix = made("~ month*treatment + month:dose + center(month) + scale(dose) + (1|clinic)", holes)
    gap = {
        "month": [3, 8],
        "month:treatment[b]": [3, 8],
        "month:treatment[c]": [3, 8],
        "month:dose": [3, 8, 20],
        "center(month)": [3, 8],
        "scale(dose)": [8, 20],
    }
    assert len(matrix) == 40
    for place, name in enumerate(design.fixed_names):
        assert np.flatnonzero(np.isnan(matrix[:, place])).tolist() == gap.get(name, [])
    observed = np.delete(np.arange(40), [3, 8, 20])
    month, dose = frame["month"].to_numpy(), frame["dose"].to_numpy()
    column = dict(zip(design.fixed_names, matrix.T, strict=False))
    assert_allclose(column["month:dose"][observed], (month * dose)[observed])
    assert_allclose(column["center(month)"][observed], (month - np.nanmean(holes["month"]))[observed])
    assert_allclose(
        column["scale(dose)"][observed], ((dose - np.nanmean(holes["dose"])) / np.nanstd(holes["dose"]))[observed]
    )


def test_transforms_that_cannot_bear_gaps_learn_from_the_observed_rows(frame):
    holes = frame.copy()
    holes.iloc[[3, 8], 1] = np.nan
    _, matrix = made("~ bs(month, df=5) + treatment", holes)
    complete = holes[holes["month"].notna()]
    assert_allclose(matrix[holes["month"].notna().to_numpy()], made("~ bs(month, df=5) + treatment", complete)[1])
    assert np.isnan(matrix[[3, 8], :5]).all()
    assert not np.isnan(matrix[:, 5:]).any()


def test_new_rows_may_have_gaps_that_the_first_had_not(frame):
    design, matrix = made("~ np.log(1 + month) + dose", frame)
    new = design.matrix(frame.assign(month=np.nan))
    assert np.isnan(new[:, 0]).all()
    assert_array_equal(new[:, 1], matrix[:, 1])
    objects = frame.assign(month=pd.Series([None] + [1.0] * 39, dtype=object, index=frame.index))
    assert_array_equal(np.isnan(design.matrix(objects)[:, 0]), [True] + [False] * 39)


def test_gaps_are_refused_elsewhere(frame):
    holes = frame.copy()
    holes.iloc[[3, 8], 1] = np.nan
    for formula, use in [("~ (month|clinic)", "a random slope"), ("~ s(month)", "a spline")]:
        with pytest.raises(ValueError, match=f"'month' is missing in 2 rows: {use} needs it in every row"):
            made(formula, holes)
        with pytest.raises(ValueError, match="'month' is missing in 2 rows"):
            made(formula, frame)[0].matrix(holes)
    with pytest.raises(ValueError, match="'month' is missing in 2 rows: every row needs a group"):
        made("~ (1|month)", holes)
    with pytest.raises(ValueError, match=r"'month' is missing in some rows, but categories such as C\(month\)"):
        made("~ C(month)", holes)
    with pytest.raises(ValueError, match="'month' is missing in every row"):
        made("~ month", frame.assign(month=np.nan))
    with pytest.raises(ValueError, match="'treatment' is missing in 40 rows: missing values are modelled in numeric"):
        made("~ treatment", frame)[0].matrix(frame.assign(treatment=None).astype({"treatment": "category"}))


def test_functions_must_be_defined_where_their_columns_are(frame):
    count = int((frame["month"] == 0).sum())
    with pytest.raises(ValueError, match=rf"'np.log\(month\)' is infinite or undefined in {count} rows"):
        made("~ np.log(month)", frame)


# Random terms ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "columns", "correlated"),
    [
        ("(1|clinic)", ("Intercept",), False),
        ("(dose|clinic)", ("Intercept", "dose"), True),
        ("( 1 + dose | clinic )", ("Intercept", "dose"), True),
        ("(0 + dose|clinic)", ("dose",), False),
        ("(dose - 1|clinic)", ("dose",), False),
        ("(dose||clinic)", ("Intercept", "dose"), False),
        ("(0 + dose + month||clinic)", ("dose", "month"), False),
        ("(0 + dose + month|clinic)", ("dose", "month"), True),
        ("(dose*month|clinic)", ("Intercept", "dose", "month", "dose:month"), True),
        ("(treatment|clinic)", ("Intercept", "treatment[b]", "treatment[c]"), True),
        ("(0 + treatment|clinic)", ("treatment[a]", "treatment[b]", "treatment[c]"), True),
        ("(1|clinic) + (0 + dose|clinic)", ("Intercept", "dose"), False),
        ("(0 + dose|clinic) + (1|clinic)", ("Intercept", "dose"), False),
    ],
)
def test_what_varies_by_group(frame, term, columns, correlated):
    design, matrix = made(f"infected ~ month + {term}", frame)
    (factor,) = design.factors
    assert (factor.name, factor.columns, factor.correlated) == ("clinic", columns, correlated)
    assert factor.intercept == ("Intercept" in columns)
    values = {
        "dose": frame["dose"],
        "month": frame["month"],
        "dose:month": frame["dose"] * frame["month"],
        **{f"treatment[{level}]": frame["treatment"] == level for level in "abc"},
    }
    assert len(factor.slopes) == len(columns) - factor.intercept
    for place, name in zip(factor.slopes, columns[factor.intercept :], strict=True):
        assert_array_equal(matrix[:, place], values[name])
    assert_array_equal(matrix[:, factor.code], frame["clinic"])
    assert design.fixed_names == ("month",)


def test_nested_and_crossed_groups(frame):
    for formula in ("~ (1|clinic/patient)", "~ (1|clinic) + (1|clinic:patient)"):
        design, matrix = made(formula, frame)
        clinic, both = design.factors
        pairs = list(zip(frame["clinic"], frame["patient"], strict=True))
        assert (clinic.name, both.name) == ("clinic", "clinic:patient")
        assert both.levels.tolist() == sorted(set(pairs))
        assert_array_equal(matrix[:, both.code], [both.levels.tolist().index(pair) for pair in pairs])
        found = design.nesting(matrix)
        assert (found.chain, found.crossed) == ((1, 0), ())
        assert_array_equal(found.parents[0], [pair[0] for pair in both.levels])
    design, matrix = made("~ (1|clinic) + (dose|patient)", frame)
    assert design.nesting(matrix)[::2] == ((1,), (0,))
    design, matrix = made("~ (dose|clinic + patient)", frame)
    assert [factor.name for factor in design.factors] == ["clinic", "patient"]
    assert design.factors[0].slopes == design.factors[1].slopes


def test_uniquely_labelled_columns_nest_without_being_told(frame):
    frame["person"] = [f"{c}-{p}" for c, p in zip(frame["clinic"], frame["patient"], strict=True)]
    design, matrix = made("~ (1|clinic) + (month|person)", frame)
    assert design.nesting(matrix).chain == (1, 0)


def test_blocks_of_one_factor_stay_apart_where_they_are_correlated(frame):
    design, matrix = made("~ (dose|patient) + (0 + month|patient) + (0 + treatment|patient)", frame)
    assert [factor.name for factor in design.factors] == ["patient", "patient.1", "patient.2"]
    assert [factor.correlated for factor in design.factors] == [True, False, True]
    assert len({factor.code for factor in design.factors}) == 1
    found = design.nesting(matrix)
    assert found.chain == (0, 1, 2)
    assert_array_equal(found.parents[0], np.arange(5))


def test_new_groups_are_minus_one(frame):
    design, _ = made("~ dose + (1|clinic/patient)", frame)
    clinic, patient = design.factors[1].levels[7]
    assert (0, 4) in design.factors[1].levels.tolist()  # the neighbour of clinic 1 with a code one too small
    new = design.matrix(frame.iloc[:3].assign(clinic=[99, 1, clinic], patient=[0, 99, patient]))
    assert_array_equal(new[:, 1:], [[-1, -1], [1, -1], [clinic, 7]])


# Splines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", ["~ treatment + s(dose, df=6)", "~ treatment + s(dose, 6) + dose"])
def test_splines_have_a_line_among_the_fixed_effects(frame, formula):
    design, matrix = made(formula, frame)
    assert design.fixed_names == ("treatment[b]", "treatment[c]", "dose")
    assert design.spline_terms == (("s(dose)", slice(3, 9)),)
    assert_array_equal(matrix[:, 2], frame["dose"])
    assert_allclose(matrix[:, 3:], design.splines[0].at(frame["dose"].to_numpy()))
    assert_allclose(design.matrix(frame.iloc[:4]), matrix[:4], atol=1e-14)


def test_columns_come_in_order(frame):
    design, matrix = made("~ month + s(dose, df=4) + s(month, df=3) + (dose|clinic) + (1|patient)", frame)
    assert design.fixed_names == ("month", "dose")
    assert [term.columns for term in design.spline_terms] == [slice(2, 6), slice(6, 9)]
    assert (design.factors[0].slopes, design.factors[0].code, design.factors[1].code) == ((9,), 10, 11)
    assert matrix.shape == (40, design.n_columns) == (40, 12)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("~ s(dose):month", "Splines can be added, but not multiplied"),
        ("~ s(dose) + s(dose, df=4)", "two splines of 'dose'"),
        ("~ (s(dose)|clinic)", "A spline cannot vary by group"),
        ("~ s(np.log(dose))", r"Write a spline as s\(column\)"),
        ("~ s(dose, knots=4)", r"Write a spline as s\(column\)"),
        ("~ s(dose, df=400)", r"df of s\(dose\) must be an integer from 2 to 38"),
        ("~ s(treatment)", "'treatment' is not numeric, but a spline needs numbers"),
    ],
)
def test_splines_are_written_in_one_way(frame, formula, message):
    with pytest.raises(ValueError, match=message):
        made(formula, frame)
