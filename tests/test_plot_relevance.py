import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianSVC
from softmargin.kernels import RBF, Linear, Matern
from softmargin.plot import RelevanceDisplay

matplotlib.use("Agg")
NAMES = ["income $", "age", "cost $", "width"]


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def table():
    X = np.random.default_rng(0).normal(size=(300, 4)) * [1000, 1, 0.01, 1]
    return pd.DataFrame(X, columns=NAMES), X[:, 1] * X[:, 3] > 0


@pytest.fixture(scope="module")
def model(table):
    return BayesianSVC(random_state=0).fit(*table)


def names_on(ax):
    """From top to bottom."""
    order = np.argsort(-np.array(ax.get_yticks()))
    return [ax.get_yticklabels()[place].get_text() for place in order]


def test_relevance_is_spread_in_length_scales(table, model, ax):
    X, _ = table
    display = RelevanceDisplay.from_estimator(model, X, ax=ax)
    length_scale = np.array(model.kernel_.first.second.length_scale)
    np.testing.assert_allclose(display.relevance, X.std(ddof=0) / length_scale)
    assert {display.names[k] for k in display.order[:2]} == {"age", "width"}
    np.testing.assert_allclose(
        [bar.get_width() for bar in display.bars_], np.sort(display.relevance)[::-1], err_msg="sorted"
    )
    assert display.low is None
    assert names_on(ax) == [display.names[k].replace("$", r"\$") for k in display.order]


def test_units_do_not_matter(table, model, ax):
    X, y = table
    other = BayesianSVC(random_state=0).fit(X * [1e-3, 60, 100, 1], y)
    found = RelevanceDisplay.from_estimator(other, X * [1e-3, 60, 100, 1], ax=ax).relevance
    expected = RelevanceDisplay.from_estimator(model, X, ax=Figure().subplots()).relevance
    # Units are rounded before a fit, which may change the search for the kernel a little.
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.01)


def test_particles_have_intervals(table, ax):
    X, y = table
    model = BayesianKernelMachine(inference="stein", n_particles=8, n_steps=20, random_state=0).fit(X, y)
    display = RelevanceDisplay.from_estimator(model, X, level=0.5, ax=ax)
    own = np.exp(-model.particles_.theta[:, model.kernel_.has_role("length_scale")]) * X.std(ddof=0).to_numpy()
    np.testing.assert_allclose(display.relevance, np.median(own, axis=0), rtol=1e-6)
    np.testing.assert_allclose(display.low, np.quantile(own, 0.25, axis=0), rtol=1e-6)
    np.testing.assert_allclose(display.high, np.quantile(own, 0.75, axis=0), rtol=1e-6)
    (whiskers,) = ax.collections
    segments = np.array(whiskers.get_segments())
    np.testing.assert_allclose(segments[:, 0, 0], display.low[display.order])


def test_a_column_counts_by_the_shortest_of_its_length_scales(table, ax):
    X, y = table
    kernel = RBF((100.0, 2.0, 1.0, 3.0)) + 2.0 * Matern(1.5) + Linear()
    model = BayesianGPC(kernel, tune=None).fit(X, y)
    display = RelevanceDisplay.from_estimator(model, X, ax=ax)
    np.testing.assert_allclose(display.relevance, X.std(ddof=0) / [1.5, 1.5, 1.0, 1.5])


def test_top_and_names(table, ax):
    X, y = table
    model = BayesianSVC(random_state=0).fit(X.to_numpy(), y)
    assert RelevanceDisplay.from_estimator(model, X.to_numpy(), ax=ax).names == ["x0", "x1", "x2", "x3"]
    display = RelevanceDisplay.from_estimator(
        model, X.to_numpy(), names=["a", "b", "c", "d"], top=2, ax=Figure().subplots()
    )
    assert {display.names[k] for k in display.order} == {"b", "d"}
    assert len(display.bars_) == 2


@pytest.mark.parametrize("given", [pl.from_pandas, lambda X: scipy.sparse.csr_matrix(X.to_numpy()), lambda X: X])
def test_tables_of_all_kinds(given, table, model, ax):
    X, y = table
    rows = given(X)
    fitted = BayesianSVC(kernel=RBF((1000.0, 1.0, 1.0, 1.0)), tune=None).fit(rows, y)
    display = RelevanceDisplay.from_estimator(fitted, rows, ax=ax)
    np.testing.assert_allclose(display.relevance, X.std(ddof=0) / [1000, 1, 1, 1])


def test_a_pipeline_is_seen_from_its_last_step(table, ax):
    X, y = table
    fitted = make_pipeline(MinMaxScaler(), BayesianSVC(random_state=0)).fit(X, y)
    display = RelevanceDisplay.from_estimator(fitted, X, ax=ax)
    assert display.names == NAMES
    spread = fitted[0].transform(X).std(axis=0)
    np.testing.assert_allclose(display.relevance, spread / fitted[-1].kernel_.first.second.length_scale)


def test_clear_errors(table, model):
    X, y = table
    with pytest.raises(NotFittedError):
        RelevanceDisplay.from_estimator(BayesianSVC(), X)
    with pytest.raises(ValueError, match=r"BayesianLinearSVC has no kernel .* CoefficientDisplay"):
        RelevanceDisplay.from_estimator(BayesianLinearSVC().fit(X, y), X)
    with pytest.raises(ValueError, match="has no length-scales: use RBF or Matern"):
        RelevanceDisplay.from_estimator(BayesianSVC(Linear(), tune=None).fit(X, y), X)
    with pytest.raises(ValueError, match="each of the 4 columns of the model, got 2"):
        RelevanceDisplay.from_estimator(model, X, names=["a", "b"])
    with pytest.raises(ValueError, match="top must be an integer >= 1"):
        RelevanceDisplay.from_estimator(model, X, top=0)
