import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.plot import CoefficientDisplay, InclusionDisplay
from softmargin.plot.coefficients import Effects, _quantile
from softmargin.tables import TableClassifier

matplotlib.use("Agg")
SPREADS = np.array([1.0, 100.0, 0.1, 1.0, 1.0, 1.0])


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(250, 6))
    y = 1.5 * Z[:, 1] - Z[:, 2] + 0.3 * Z[:, 3] + rng.logistic(size=250) > 0
    return pd.DataFrame(Z * SPREADS, columns=["a", "b $", "c $", "d", "e", "f"]), y


@pytest.fixture(scope="module")
def model(table):
    return BayesianLinearSVC().fit(*table)


@pytest.fixture(scope="module")
def choosy(table):
    return BayesianLinearSVC(prior="laplace-zero", rho=0.3).fit(*table)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return BayesianLinearSVC(prior="laplace-zero").fit(X, load_iris().target_names[y])


# Coefficients ------------------------------------------------------------------------------------


def test_coefficients_for_a_unit_of_the_column(model, ax):
    display = CoefficientDisplay.from_estimator(model, units="column", level=0.8, ax=ax)
    np.testing.assert_array_equal(display.mean, model.coef_)
    half = norm.ppf(0.9) * model.coef_std_
    np.testing.assert_allclose(display.low, model.coef_ - half)
    np.testing.assert_allclose(display.high, model.coef_ + half)
    assert ax.get_xlabel() == "coefficient"


def test_coefficients_for_a_standard_deviation_of_the_column(table, model, ax):
    display = CoefficientDisplay.from_estimator(model, ax=ax)
    np.testing.assert_allclose(display.mean[0], model.coef_[0] * table[0].std(ddof=0), rtol=1e-6)
    assert [display.names[k] for k in display.order[:2]] == ["b $", "c $"]
    assert np.all(np.diff(np.abs(display.mean[0, display.order])) <= 0)


def test_marks_and_intervals_carry_the_numbers(model, ax):
    display = CoefficientDisplay.from_estimator(model, top=4, ax=ax)
    (marks,) = display.marks_
    heights = [3, 2, 1, 0]
    np.testing.assert_allclose(marks.get_offsets(), np.column_stack([display.mean[0, display.order], heights]))
    segments = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(segments[:, 0, 0], display.low[0, display.order])
    np.testing.assert_allclose(segments[:, 1, 0], display.high[0, display.order])
    open_ = (display.low[0, display.order] < 0) & (display.high[0, display.order] > 0)
    np.testing.assert_array_equal(marks.get_facecolor()[:, :3].min(axis=1) == 1, open_)
    assert [text.get_text() for text in ax.get_yticklabels()][:2] == [r"b \$", r"c \$"]


def test_intervals_of_coefficients_that_may_be_zero(choosy, ax):
    display = CoefficientDisplay.from_estimator(choosy, units="column", ax=ax)
    draws = choosy._draw_weights(200_000, np.random.RandomState(0))[:, :6] / choosy._columns.scale
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    # A quantile of 200,000 draws is known to about 0.01 deviations.
    np.testing.assert_allclose(display.low[0], low, atol=0.02 * choosy.coef_std_[0].max())
    np.testing.assert_allclose(display.high[0], high, atol=0.02 * choosy.coef_std_[0].max())
    unlikely = choosy.inclusion_probability_ < 0.05
    assert unlikely.any()
    assert not display.low[0, unlikely].any()
    assert not display.high[0, unlikely].any()


@given(st.floats(0.01, 1), st.floats(-3, 3), st.floats(0.1, 2), st.floats(0.01, 0.99))
def test_quantiles_of_zero_and_a_gaussian(w, m, s, tail):
    parts = (np.array([part]) for part in (w, m, s))
    x = float(_quantile(tail, *parts)[0])
    below = w * norm.cdf(x, m, s)
    # The distribution function rises through the level there, or jumps over it at zero.
    if x == 0:
        assert below - 1e-9 <= tail <= below + (1 - w) + 1e-9
    else:
        assert below + (1 - w) * (x > 0) == pytest.approx(tail, abs=1e-9)


def test_surely_included_columns_come_before_large_ones():
    effects = Effects(
        mean=np.array([[0.5, -3.0, 0.2, 0.4]]),
        std=np.ones((1, 4)),
        inclusion=np.array([[1.0, 0.4, 1.0, 0.1]]),
        positive=np.ones((1, 4)),
        names=list("abcd"),
        labels=None,
    )
    assert effects.order().tolist() == [0, 2, 1, 3]
    assert effects._replace(inclusion=None).order().tolist() == [1, 0, 3, 2]


def test_every_class_has_coefficients(iris, ax):
    display = CoefficientDisplay.from_estimator(iris, units="column", ax=ax)
    np.testing.assert_array_equal(display.mean, iris.coef_)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["setosa", "versicolor", "virginica"]
    assert len({tuple(marks.get_offsets()[0]) for marks in display.marks_}) == 3
    one = CoefficientDisplay.from_estimator(iris, units="column", label="virginica", ax=Figure().subplots())
    np.testing.assert_array_equal(one.mean, iris.coef_[2:])


def test_fixed_effects_and_tables_keep_their_names(table, ax):
    X, y = table
    grouped = X.assign(group=np.arange(len(X)) % 10)
    mixed = BayesianMixedSVC(groups="group").fit(grouped, y)
    assert CoefficientDisplay.from_estimator(mixed, ax=ax).names == list(X.columns)
    words = X[["a", "b $"]].assign(colour=np.where(np.arange(len(X)) % 2, "red", "blue"))
    fitted = TableClassifier(BayesianLinearSVC()).fit(words, y)
    names = CoefficientDisplay.from_estimator(fitted, ax=Figure().subplots()).names
    assert names == list(fitted.classifier_.feature_names_in_)
    assert {"a", "b $"} < {*names}


def test_pipelines_and_searches_say_how_their_columns_are_called(table, ax):
    X, y = table
    fitted = make_pipeline(StandardScaler(), BayesianLinearSVC()).fit(X, y)
    assert CoefficientDisplay.from_estimator(fitted, ax=ax).names == list(X.columns)
    search = GridSearchCV(fitted, {"bayesianlinearsvc__prior": ["ridge"]}, cv=2).fit(X, y)
    assert CoefficientDisplay.from_estimator(search, ax=Figure().subplots()).names == list(X.columns)


def test_new_axes_are_high_enough_for_the_list(model):
    display = CoefficientDisplay.from_estimator(model, top=None)
    assert len(display.ax_.get_yticks()) == 6
    matplotlib.pyplot.close(display.figure_)


# Inclusion ---------------------------------------------------------------------------------------


def test_bars_are_inclusion_probabilities(choosy, ax):
    display = InclusionDisplay.from_estimator(choosy, top=5, ax=ax)
    np.testing.assert_array_equal(display.probability[0], choosy.inclusion_probability_)
    np.testing.assert_array_equal(display.positive[0], choosy.positive_probability_)
    (bars,) = display.bars_
    np.testing.assert_array_equal([bar.get_width() for bar in bars], display.probability[0, display.order])
    assert np.all(np.diff(display.probability[0, display.order].round(3)) <= 0)
    assert len(bars) == 5
    assert display.ax_ is ax


def test_colours_are_signs(choosy, ax):
    display = InclusionDisplay.from_estimator(choosy, ax=ax)
    colours = {display.names[k]: bar.get_facecolor() for k, bar in zip(display.order, display.bars_[0], strict=True)}
    red, _, blue, _ = colours["b $"]
    assert red > blue
    red, _, blue, _ = colours["c $"]
    assert red < blue


def test_inclusion_and_coefficients_stand_in_the_same_order(choosy, iris):
    left, right = Figure().subplots(1, 2)
    for model in (choosy, iris):
        coefficients = CoefficientDisplay.from_estimator(model, top=4, ax=left)
        inclusion = InclusionDisplay.from_estimator(model, top=4, ax=right)
        np.testing.assert_array_equal(coefficients.order, inclusion.order)


def test_inclusion_in_every_class(iris, ax):
    display = InclusionDisplay.from_estimator(iris, ax=ax)
    assert display.probability.shape == (3, 4)
    for place, bars in enumerate(display.bars_):
        np.testing.assert_array_equal(
            [bar.get_width() for bar in bars], iris.inclusion_probability_[place, display.order]
        )
    assert [text.get_text() for text in ax.texts] == ["setosa", "versicolor", "virginica"]


def test_models_in_the_units_of_columns_can_select_too(table, ax):
    X, y = table
    model = BayesianLinearSVC(prior="laplace-zero", standardize=False).fit(X / SPREADS, y)
    display = InclusionDisplay.from_estimator(model, ax=ax)
    np.testing.assert_array_equal(display.probability[0], model.inclusion_probability_)


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("display", [CoefficientDisplay, InclusionDisplay])
def test_clear_errors(display, table, model, iris):
    X, y = table
    with pytest.raises(NotFittedError):
        display.from_estimator(BayesianLinearSVC())
    with pytest.raises(ValueError, match=r"BayesianSVC has no coefficients .* RelevanceDisplay"):
        display.from_estimator(BayesianSVC(random_state=0).fit(X, y))
    with pytest.raises(ValueError, match="'rose' is not one of the classes"):
        display.from_estimator(iris, label="rose")
    with pytest.raises(ValueError, match="label is for more than two classes"):
        display.from_estimator(model, label=True)
    with pytest.raises(ValueError, match="each of the 6 columns"):
        display.from_estimator(model, names=["a"])


def test_clear_errors_of_each(table, model):
    X, y = table
    with pytest.raises(ValueError, match="selects no variables: fit it with prior='laplace-zero'"):
        InclusionDisplay.from_estimator(model)
    with pytest.raises(ValueError, match="standardize=False"):
        CoefficientDisplay.from_estimator(BayesianLinearSVC(standardize=False).fit(X, y))
    with pytest.raises(ValueError, match="units must be one of 'spread', 'column'"):
        CoefficientDisplay.from_estimator(model, units="sd")
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        CoefficientDisplay.from_estimator(model, level=1.5)
