"""Bad tables, formulas and groups get an error that names the culprit; odd ones get a right answer."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from softmargin import BayesianMixedSVC


@pytest.fixture
def frame(rng):
    n = 80
    table = pd.DataFrame({"age": rng.normal(size=n), "dose": rng.normal(size=n), "sex": rng.choice(["f", "m"], n)})
    table["clinic"] = rng.choice(["a", "b", "c", "d", "e"], n)
    table["ill"] = np.where(table["age"] + rng.normal(size=n) > 0, "yes", "no")
    return table


def checked(model, frame, y=None, **fit):
    """Fits, and demands finite answers that agree with each other."""
    p = model.fit(frame, y, **fit).predict_proba(frame)
    assert np.isfinite(p).all()
    assert (model.classes_[p.argmax(axis=1)] == model.predict(frame)).all()
    return model


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("ill ~ agee + (1|clinic)", "no column 'agee'; did you mean 'age'"),
        ("ill ~ age + (1|clinics)", "no column 'clinics'; did you mean 'clinic'"),
        ("state ~ age", "no column 'state'; there are 'age', 'dose', 'sex', 'clinic', 'ill'"),
        ("ill ~ log(age)", "Unknown name in the formula"),
        ("ill ~ age + ill", "'ill' is on both sides"),
        ("ill ~ age + (1|ill)", "'ill' is on both sides"),
        ("ill ~ age + (1|clinic", "Random terms must be in brackets"),
        ("ill ~ age + (1|clinic) + (1|clinic)", "'Intercept' varies by 'clinic' in two terms"),
        ("ill ~ 0", "The model has no terms"),
        ("", "nothing to fit"),
        (7, "formula must be a string"),
    ],
)
def test_formulas_that_mean_nothing_are_refused(formula, message, frame):
    with pytest.raises(ValueError, match=message):
        BayesianMixedSVC(formula).fit(frame)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"groups": "clinics"}, "no column 'clinics'; did you mean 'clinic'"),
        ({"groups": ["clinic", "clinic"]}, "'clinic' is named twice in groups"),
        ({"groups": ["clinic", ("clinic",)]}, "'clinic' is named twice in groups"),
        ({"groups": {"clinic": ["age", "clinic"]}}, "'clinic' cannot be both a group and a slope"),
        ({"groups": np.arange(80) % 5}, "add the group labels to X, as a column"),
        ({"splines": ["sex"]}, "'sex' is not numeric, but a spline needs numbers"),
        ({"formula": "~ age", "groups": "clinic"}, "formula, or groups and splines, but not both"),
        ({"formula": "~ age", "splines": "age"}, "formula, or groups and splines, but not both"),
        (
            {"groups": "clinic", "variance_prior": "flat"},
            "variance_prior must be one of 'inverse-gamma', 'half-cauchy'",
        ),
        ({"groups": "clinic", "variance_scale": 0}, "variance_scale must be a positive number"),
        ({"groups": "clinic", "rho": 1.0}, "rho, the share of columns expected to matter, must lie between 0 and 1"),
        ({"groups": "clinic", "prior": [1.0, 2.0]}, r"shape \(3, 3\) to match"),
        ({"groups": "clinic", "inference": "svi"}, "inference must be one of 'auto', 'cavi', 'gibbs', got 'svi'"),
        ({"groups": "clinic", "inference": "ecm"}, "inference must be one of 'auto', 'cavi', 'gibbs', got 'ecm'"),
        ({"groups": "clinic", "loss": "probit", "inference": "gibbs"}, "relies on an augmentation"),
    ],
)
def test_parameters_are_checked(parameters, message, frame):
    with pytest.raises(ValueError, match=message):
        BayesianMixedSVC(**parameters).fit(frame.drop(columns="ill"), frame["ill"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clinic": None}, "'clinic' is missing in 1 row: every row needs a group"),
        ({"sex": None}, "'sex' is missing in 1 row: missing values are modelled in numeric columns only"),
        ({"dose": np.inf}, "'dose' is infinite"),
        ({"age": np.nan}, "'age' is missing in 1 row: a random slope needs it"),
        ({"ill": None}, r"y contains NaN, infinity or None in row 0 \(counted from 0\); drop"),
        ({"clinic": {}}, "strings, numbers or the like; one is not"),
    ],
)
def test_entries_that_mean_nothing_are_refused(change, message, frame):
    formula = "ill ~ age + dose + sex + (age|clinic)"
    bad = frame.astype(object)
    ((name, value),) = change.items()
    bad[name] = [value, *frame[name][1:]]
    bad = bad.infer_objects()
    with pytest.raises(ValueError, match=message):
        BayesianMixedSVC(formula).fit(bad)
    if name not in ("ill", "clinic") or value is None:
        fitted = BayesianMixedSVC(formula).fit(frame)
        if name != "ill":
            with pytest.raises(ValueError, match=message):
                fitted.predict(bad)


def test_columns_without_any_entry_are_named(frame):
    empty = frame.assign(dose=np.nan)
    with pytest.raises(ValueError, match="'dose' is missing in every row: drop it from the formula"):
        BayesianMixedSVC("ill ~ age + dose").fit(empty)
    with pytest.raises(ValueError, match="column 'dose' has no observed value"):
        BayesianMixedSVC(groups="clinic").fit(empty.drop(columns="ill"), frame["ill"])
    with pytest.raises(ValueError, match="column 1 has no observed value"):
        BayesianMixedSVC().fit(empty[["age", "dose"]].to_numpy(), frame["ill"])


def test_levels_and_columns_must_be_known_when_predicting(frame):
    model = BayesianMixedSVC("ill ~ age + sex + (1|clinic)").fit(frame)
    with pytest.raises(ValueError, match="'sex' has the level 'x', not seen when the model was fitted"):
        model.predict(frame.assign(sex="x"))
    with pytest.raises(ValueError, match="no column 'sex'"):
        model.predict(frame.drop(columns="sex"))
    with pytest.raises(ValueError, match="no column 'age'"):
        model.predict(frame.to_numpy())
    with pytest.raises(ValueError, match="no rows"):
        model.predict(frame[:0])
    assert len(model.predict(frame[["clinic", "sex", "age"]])) == 80  # others need not be there, in whatever order
    codes = frame["clinic"].map(ord).to_numpy()
    by_position = BayesianMixedSVC(groups=1).fit(np.column_stack([frame["age"], codes]), frame["ill"])
    with pytest.raises(ValueError, match="array of 2 columns"):
        by_position.predict(np.zeros((3, 4)))


@pytest.mark.parametrize("groups", ["1 | clinic", "1 | sex:clinic"])
def test_groups_are_of_the_type_that_they_had(groups, frame):
    frame["clinic"] = frame["clinic"].map(ord)
    texts = frame.assign(clinic=frame["clinic"].astype(str))
    model = BayesianMixedSVC(f"ill ~ age + ({groups})")
    message = "'clinic' held numbers when the model was fitted, such as 97, but holds strings now, such as '"
    with pytest.raises(ValueError, match=message):
        model.fit(frame).predict(texts)
    model.predict(frame.assign(clinic=500.0))  # new, but of the right type
    model.predict(frame.assign(clinic=frame["clinic"].astype("category")))
    with pytest.raises(ValueError, match=r"'clinic' held strings .* such as '100', but holds numbers now, such as"):
        model.fit(texts).predict(frame)
    model.predict(texts.assign(clinic="500"))
    with pytest.raises(ValueError, match="holds objects of another type now"):
        model.predict(texts.assign(clinic=pd.Period("2024")))
    model.fit(texts.assign(clinic=[97, *texts["clinic"][1:]])).predict(frame)  # either type occurred


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(80), "two dimensions"),
        (scipy.sparse.csr_array(np.eye(80)), "not a sparse matrix"),
        (1j * np.ones((80, 2)), "complex"),
        (np.full((80, 2), "a"), "pass a frame"),
        (np.empty((80, 0)), "no column 0"),
        (np.empty((0, 2)), "no rows"),
    ],
)
def test_tables_that_are_none_are_refused(X, message, frame):
    with pytest.raises(ValueError, match=message):
        BayesianMixedSVC(groups=0).fit(X, frame["ill"][: X.shape[0]])


def test_formulas_need_frames_and_labels(frame):
    with pytest.raises(ValueError, match="needs a frame with named columns"):
        BayesianMixedSVC("~ age").fit(frame[["age"]].to_numpy(), frame["ill"])
    for model in (BayesianMixedSVC("~ age"), BayesianMixedSVC(groups="clinic")):
        with pytest.raises(ValueError, match="There are no labels: give y"):
            model.fit(frame[["age", "clinic"]])
    with pytest.raises(ValueError, match="only one class"):
        BayesianMixedSVC("ill ~ age").fit(frame.assign(ill="yes"))
    with pytest.raises(ValueError, match="y differs from the column 'ill'"):
        BayesianMixedSVC("ill ~ age").fit(frame, frame["ill"][::-1])
    with pytest.raises(ValueError, match="2 columns named 'clinic'"):
        BayesianMixedSVC(groups="clinic").fit(pd.concat([frame, frame[["clinic"]]], axis=1), frame["ill"])


@pytest.mark.parametrize("model", [BayesianMixedSVC("~ s(age)"), BayesianMixedSVC(groups="clinic"), BayesianMixedSVC()])
def test_weights_that_mean_nothing_are_refused(model, frame):
    rows = frame[["age", "dose"]] if model.get_params()["groups"] is None else frame[["age", "clinic"]]
    for weight, message in [
        (np.zeros(80), "weights are zero"),
        (-np.ones(80), "non-negative"),
        (np.ones(3), "80 rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(rows, frame["ill"], sample_weight=weight)


def test_mixed_models_have_no_batches():
    assert not hasattr(BayesianMixedSVC(), "partial_fit")


def test_a_fit_that_fails_leaves_the_model_as_it_was(frame):
    model = BayesianMixedSVC("ill ~ age + (1|clinic)").fit(frame)
    before = model.predict_proba(frame)
    with pytest.raises(ValueError, match="only one class"):
        model.set_params(formula="ill ~ dose + (1|sex)").fit(frame.assign(ill="yes"))
    np.testing.assert_array_equal(model.predict_proba(frame), before)


# Odd, but not wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "formula",
    ["ill ~ 1", "ill ~ (1|clinic)", "ill ~ 0 + (1|clinic)", "ill ~ 0 + age", "ill ~ 0 + (0 + age|clinic) + (1|sex)"],
)
@pytest.mark.parametrize("prior", ["ridge", "ard", "laplace-zero", 1.0])
def test_models_may_lack_fixed_effects_or_an_intercept(formula, prior, frame):
    model = checked(BayesianMixedSVC(formula, prior=prior), frame)
    assert model.coef_.shape == (1, len(model.fixed_names_))
    assert np.isfinite(model.intercept_std_).all()


def test_groups_may_be_one_or_as_many_as_rows(frame):
    for label in (np.zeros(80), np.arange(80), np.where(np.arange(80) == 7, "alone", "all")):
        model = checked(BayesianMixedSVC("ill ~ age + (1|g)"), frame.assign(g=label))
        assert len(model.random_effects()) == len(np.unique(label))
        assert 0 < model.variance_components_["g"][0, 0] < 100


def test_columns_that_are_copies_or_constant_are_harmless(frame):
    odd = frame.assign(again=frame["age"], sum=frame["age"] + frame["dose"], one=1.0)
    for prior in ("ridge", "ard", "laplace-zero"):
        checked(BayesianMixedSVC("ill ~ age + again + dose + sum + one + (age|clinic)", prior=prior), odd)
    checked(BayesianMixedSVC("ill ~ age + (1 + one|clinic)", max_iter=1000), odd)


def test_more_columns_than_rows(frame, rng):
    wide = pd.DataFrame(rng.normal(size=(80, 120)), columns=[f"w{i}" for i in range(120)])
    model = checked(BayesianMixedSVC(groups="clinic", max_iter=1000), wide.assign(clinic=frame["clinic"]), frame["ill"])
    assert model.score(wide.assign(clinic=frame["clinic"]), frame["ill"]) > 0.95


def test_classes_that_columns_separate(frame):
    y = frame["age"] > 0
    for loss in ("hinge", "logistic"):
        model = checked(BayesianMixedSVC("~ age + dose + (1|clinic)", loss=loss, max_iter=1000), frame, y)
        assert model.score(frame, y) > 0.97


def test_classes_that_groups_separate(frame):
    y = frame["clinic"].isin(["a", "b"])
    model = BayesianMixedSVC("~ age + (1|clinic)")
    with pytest.warns(ConvergenceWarning, match="had not converged"):  # their variance grows almost without end
        model.fit(frame, y)
    assert np.isfinite(model.predict_proba(frame)).all()
    assert model.score(frame, y) == 1


@pytest.mark.parametrize("term", ["C(kind)", "S(kind)", "T(kind)", "kind", "C(kind)*x"])
def test_a_few_rows_need_not_show_every_category(term):
    rng = np.random.default_rng(0)
    kind, group = np.tile(["a", "b", "c"], 30), np.repeat([1, 2, 3], 30)
    frame = pd.DataFrame({"x": rng.normal(size=90), "kind": kind, "g": group})
    y = frame["x"] + (frame["kind"] == "a") + rng.logistic(size=90) > 0
    model = BayesianMixedSVC(f"~ {term} + (1 | g)").fit(frame, y)
    one_by_one = np.concatenate([model.predict_proba(frame.iloc[[row]]) for row in range(3)])
    assert_allclose(one_by_one, model.predict_proba(frame)[:3], rtol=1e-12)
