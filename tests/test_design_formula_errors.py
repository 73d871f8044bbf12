"""Formulas: labels, mistakes, and designs that are kept."""

import copy
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from softmargin.design import Design
from test_design_formula import infections, made

frame = pytest.fixture(infections)


# The response ------------------------------------------------------------------------------------


def test_labels_come_from_the_formula_or_from_y(frame):
    design = Design.from_formula("infected ~ dose", frame)
    labels = frame["infected"].to_numpy()
    assert_array_equal(design.response(frame), labels)
    assert_array_equal(design.response(frame, list(labels)), labels)
    assert_array_equal(design.response(frame.drop(columns="infected"), labels), labels)
    with pytest.raises(ValueError, match="y differs from the column 'infected'"):
        design.response(frame, labels[::-1])
    with pytest.raises(ValueError, match="no column 'infected'"):
        design.response(frame.drop(columns="infected"))
    assert_array_equal(Design.from_formula("~ dose", frame).response(frame, labels), labels)
    with pytest.raises(ValueError, match="There are no labels: give y"):
        Design.from_formula("~ dose", frame).response(frame)
    assert Design.from_formula("`first name` ~ dose", frame).response_name == "first name"
    design.matrix(frame[["dose"]])


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("infected ~ moth + dose", r"no column 'moth'; did you mean 'month'\?"),
        ("~ dose + (1|pateint)", r"no column 'pateint'; did you mean 'patient' or 'treatment'\?"),
        ("~ (does|clinic)", r"no column 'does'; did you mean 'dose'\?"),
        ("~ dose | clinic", "Random terms must be in brackets"),
        ("~ dose - (1|clinic)", "can only be added"),
        ("~ dose*(1|clinic)", "Random terms must be in brackets"),
        ("~ (1|clinic|patient)", "more than one bar"),
        ("~ (0|clinic)", "Nothing varies by group"),
        ("~ (dose|1)", "no group to the right"),
        ("~ (1|C(clinic))", r"compute 'C\(clinic\)' as a column first"),
        ("~ (1|clinic) + (dose|clinic)", r"'Intercept' varies by 'clinic' in two terms"),
        ("a ~ b ~ c", "more than one '~'"),
        ("infected ~", "nothing to fit"),
        ("log(infected) ~ dose", r"compute 'log\(infected\)' as a column first"),
        ("~ dose month", "did not expect 'month'"),
        ("~ dose +", "Could not read"),
        ("~ 2*dose", "The number 2 is not a term"),
        ("~ log(dose)", "Unknown name in the formula: 'log'"),
        ("~ np.lgo(dose)", "Unknown name in the formula: .*'lgo'"),
        ("~ offset(dose)", "neither a number nor a category"),
        ("~ 0", "The model has no terms"),
    ],
)
def test_mistakes_are_explained(frame, formula, message):
    with pytest.raises(ValueError, match=message):
        made(formula, frame)


def test_unknown_levels_and_changed_kinds_are_named(frame):
    design, _ = made("~ treatment*dose", frame)
    with pytest.raises(
        ValueError, match=r"'treatment' has the levels 'x', 'y', not seen .* known ones are 'a', 'b', 'c'"
    ):
        design.matrix(frame.assign(treatment=["x", "y"] * 20))
    with pytest.raises(ValueError, match="'dose' held numbers"):
        design.matrix(frame.assign(dose="high"))
    with pytest.raises(ValueError, match="no column 'dose'; there are"):
        design.matrix(frame[["treatment"]])


def test_formulas_need_frames_and_text(frame):
    with pytest.raises(ValueError, match="needs a frame"):
        Design.from_formula("~ a", np.ones((3, 2)))
    with pytest.raises(ValueError, match="formula must be a string"):
        Design.from_formula(None, frame)  # pyright: ignore[reportArgumentType]


def test_a_missing_package_is_named(frame, monkeypatch):
    monkeypatch.setitem(sys.modules, "formulae", None)
    with pytest.raises(ImportError, match=r'pip install "softmargin\[formula\]"'):
        Design.from_formula("~ dose", frame)


# Keeping -----------------------------------------------------------------------------------------


def test_designs_can_be_pickled_and_copied_and_hold_no_rows(frame):
    formula = "infected ~ np.exp(dose)*treatment + bs(month, df=4) + C(clinic) + s(dose) + (center(dose)|patient)"
    design, matrix = made(formula, frame)
    for other in (pickle.loads(pickle.dumps(design)), copy.deepcopy(design)):
        assert_array_equal(other.matrix(frame), matrix)
    many, _ = made(formula, pd.concat([frame] * 50))
    assert len(pickle.dumps(many)) < 1.01 * len(pickle.dumps(design)) + 100


def test_input_is_left_as_it_was(frame):
    frame.iloc[2, 1] = np.nan
    before = frame.copy()
    made("infected ~ month*treatment + dose + (dose|clinic)", frame)
    pd.testing.assert_frame_equal(frame, before)


def test_no_rows_make_an_empty_matrix(frame):
    design, matrix = made("~ month*treatment + s(dose) + (dose|clinic/patient)", frame)
    assert design.matrix(frame.iloc[:0]).shape == (0, matrix.shape[1])


def test_one_level_is_no_column(frame):
    design, matrix = made("~ treatment + dose", frame.assign(treatment="a"))
    assert design.fixed_names == ("dose",)
    assert matrix.shape == (40, 1)


def test_a_model_of_groups_alone(frame):
    design, matrix = made("~ (1|clinic)", frame)
    assert (design.fixed_names, design.intercept) == ((), True)
    assert_array_equal(matrix, frame[["clinic"]])
