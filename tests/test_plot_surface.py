import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from softmargin import BayesianLinearSVC, BayesianSVC
from softmargin.plot import DecisionSurfaceDisplay
from softmargin.plot.style import FILLS, PAPER
from softmargin.tables import TableClassifier

matplotlib.use("Agg")
GRID = 30


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(60, noise=0.2, random_state=0)
    return X, np.array(["down", "up"])[y]


@pytest.fixture(scope="module")
def model(moons):
    return BayesianSVC(random_state=0).fit(*moons)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, load_iris().target_names[y]


@pytest.fixture(scope="module")
def species(iris):
    return BayesianSVC(random_state=0).fit(*iris)


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# Two classes, two columns ------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_name_the_axes_and_classes_the_legend(frame, moons, ax):
    X, y = moons
    table = frame({"other": X[:, 0], "width": X[:, 0], "height": X[:, 1]})
    fitted = BayesianSVC(random_state=0).fit(table[["width", "height"]], y)
    by_name = DecisionSurfaceDisplay.from_estimator(
        fitted, table, y, columns=("width", "height"), grid_resolution=GRID, ax=ax
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    assert legend_of(ax) == ["down", "up", "probability 0.5", "one latent SD away"]
    by_position = DecisionSurfaceDisplay.from_estimator(
        fitted, table, y, columns=(1, 2), grid_resolution=GRID, ax=Figure().subplots()
    )
    np.testing.assert_array_equal(by_name.probability, by_position.probability)


def test_grid_values_are_the_models_own(model, moons, ax):
    display = DecisionSurfaceDisplay.from_estimator(model, *moons, grid_resolution=GRID, ax=ax)
    i, j = 7, 19
    row = [[display.xx0[i, j], display.xx1[i, j]]]
    _, v = model.latent_mean_and_variance(row)
    assert display.probability[i, j] == pytest.approx(model.predict_proba(row)[0, 1])
    assert display.knowledge[i, j] == pytest.approx(1 - v[0] / model.kernel_.diagonal(np.array(row))[0])
    np.testing.assert_array_equal(np.sign(display.distance), np.sign(display.probability - 0.5))
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_the_picture_carries_these_numbers(model, moons, ax):
    display = DecisionSurfaceDisplay.from_estimator(model, *moons, grid_resolution=GRID, ax=ax)
    (veil,) = ax.images
    np.testing.assert_allclose(veil.get_array()[..., 3], 1 - display.knowledge)
    np.testing.assert_allclose(display.surface_.levels, np.linspace(0, 1, 11))
    drawn = np.concatenate([handle.get_offsets() for handle in display.handles_[:2]])
    np.testing.assert_array_equal(np.sort(drawn, axis=0), np.sort(moons[0], axis=0))
    boundary = ax.collections[3]
    for x0, x1 in boundary.get_paths()[0].vertices[::20]:
        # Between the points of a grid of 30 the contour is a straight line, and the probability is not.
        assert model.predict_proba([[x0, x1]])[0, 1] == pytest.approx(0.5, abs=0.05)


def test_less_is_known_far_from_the_data(model, moons, ax):
    display = DecisionSurfaceDisplay.from_estimator(model, *moons, grid_resolution=GRID, ax=ax)
    assert display.knowledge[0, 0] < 0.5 < display.knowledge.max() <= 1
    assert display.knowledge.min() >= 0


def test_a_pipeline_shows_the_uncertainty_of_its_last_step(moons, ax):
    fitted = make_pipeline(StandardScaler(), BayesianSVC(random_state=0)).fit(*moons)
    display = DecisionSurfaceDisplay.from_estimator(fitted, *moons, grid_resolution=GRID, ax=ax)
    np.testing.assert_array_equal(np.sign(display.distance), np.sign(display.probability - 0.5))


def test_other_classifiers_are_drawn_without_uncertainty(moons, ax):
    fitted = CalibratedClassifierCV(SVC(), ensemble=False).fit(*moons)
    display = DecisionSurfaceDisplay.from_estimator(fitted, *moons, grid_resolution=GRID, ax=ax)
    assert display.distance is None
    assert legend_of(ax) == ["down", "up", "probability 0.5"]


def test_linear_model_has_a_band_and_no_veil(moons, ax):
    display = DecisionSurfaceDisplay.from_estimator(
        BayesianLinearSVC().fit(*moons), *moons, grid_resolution=GRID, ax=ax
    )
    assert display.distance is not None
    assert display.knowledge is None
    assert not ax.images


def test_a_surface_that_never_crosses_one_half_has_no_line(moons, ax):
    X, _ = moons
    y = np.arange(len(X)) == 0
    fitted = BayesianLinearSVC(prior=1e-6).fit(X, y)
    DecisionSurfaceDisplay.from_estimator(fitted, X, y, grid_resolution=GRID, ax=ax)
    assert "probability 0.5" not in legend_of(ax)


def test_plot_again_elsewhere(model, moons, ax):
    display = DecisionSurfaceDisplay.from_estimator(model, *moons, grid_resolution=GRID, ax=ax)
    other = Figure().subplots()
    assert display.plot(ax=other, legend=False) is display
    assert display.ax_ is other
    assert other.get_legend() is None


def test_dollars_and_underscores_are_written_as_they_are(moons, ax):
    X, _ = moons
    table = pd.DataFrame({"price $": X[:, 0], "cost $": X[:, 1]})
    y = np.array(["_low $", "_high $"])[(X[:, 0] > 0).astype(int)]
    fitted = BayesianLinearSVC().fit(table, y)
    DecisionSurfaceDisplay.from_estimator(fitted, table, y, grid_resolution=GRID, ax=ax)
    assert ax.get_xlabel() == r"price \$"
    assert legend_of(ax)[:2] == [r" _high \$", r" _low \$"]


# More columns ------------------------------------------------------------------------------------


def test_other_columns_are_held_at_their_medians(iris, species, ax):
    X, y = iris
    display = DecisionSurfaceDisplay.from_estimator(species, X, y, columns=(2, 3), grid_resolution=GRID, ax=ax)
    i, j = 3, 21
    row = X.median().to_frame().T
    row.iloc[0, 2:] = display.xx0[i, j], display.xx1[i, j]
    np.testing.assert_allclose(display.probability[i, j], species.predict_proba(row)[0])
    assert display.held == {"sepal length (cm)": 5.8, "sepal width (cm)": 3.0}
    assert ax.get_legend().get_title().get_text() == "sepal length (cm) = 5.8\nsepal width (cm) = 3"


def test_or_at_values_that_are_given(iris, ax):
    X, y = iris[0].to_numpy(), iris[1]
    fitted = BayesianLinearSVC().fit(X, y)
    display = DecisionSurfaceDisplay.from_estimator(
        fitted, X, y, columns=(3, 0), at={1: 2.0, 2: 4.5}, grid_resolution=GRID, ax=ax
    )
    i, j = 11, 5
    row = [[display.xx1[i, j], 2.0, 4.5, display.xx0[i, j]]]
    np.testing.assert_allclose(display.probability[i, j], fitted.predict_proba(row)[0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x3", "x0")
    assert display.held == {"x1": 2.0, "x2": 4.5}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_tables_with_words_are_held_at_the_most_frequent_one(frame, moons, ax):
    X, y = moons
    colours = np.where(np.arange(len(X)) % 3 == 0, "red", "blue")
    table = frame({"colour": colours, "width": X[:, 0], "height": X[:, 1], "label": y})
    fitted = TableClassifier(BayesianLinearSVC()).fit(table, "label")
    display = DecisionSurfaceDisplay.from_estimator(
        fitted, table, y, columns=("width", "height"), grid_resolution=GRID, ax=ax
    )
    assert display.held == {"colour": "blue"}
    i, j = 4, 9
    row = pd.DataFrame({"colour": ["blue"], "width": [display.xx0[i, j]], "height": [display.xx1[i, j]]})
    assert display.probability[i, j] == pytest.approx(fitted.predict_proba(row)[0, 1])
    assert display.distance is not None


def test_many_held_columns_are_counted(rng, ax):
    X = rng.normal(size=(60, 8))
    fitted = BayesianLinearSVC().fit(X, X[:, 0] > 0)
    DecisionSurfaceDisplay.from_estimator(fitted, X, X[:, 0] > 0, grid_resolution=GRID, ax=ax)
    assert ax.get_legend().get_title().get_text() == "6 other columns fixed"


# More classes ------------------------------------------------------------------------------------


def test_colour_is_the_most_probable_class_and_fades_with_its_lead(iris, species, ax):
    given = DecisionSurfaceDisplay.from_estimator(species, *iris, columns=(2, 3), grid_resolution=100, ax=ax)
    assert given.probability.shape == (100, 100, 3)
    assert legend_of(ax) == ["setosa", "versicolor", "virginica", "equal probability", "one latent SD away"]
    grid = {"xx0": given.xx0, "xx1": given.xx1, "probability": given.probability}
    nothing = {"points": np.empty((0, 2)), "labels": np.empty(0)}
    bare = DecisionSurfaceDisplay(**grid, **nothing, classes=given.classes, names=given.names)
    figure = Figure(figsize=(4, 4), dpi=100)
    canvas = FigureCanvasAgg(figure)
    bare.plot(ax=figure.add_axes((0, 0, 1, 1)), legend=False)
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba())[::-1, :, :3] / 255
    ordered = np.sort(given.probability, axis=-1)
    level = np.minimum((5 * (ordered[..., -1] - ordered[..., -2])).astype(int), 4)
    winner, n_seen = given.probability.argmax(axis=-1), 0
    for i, j in np.ndindex(25, 25):
        i, j = 4 * i + 2, 4 * j + 2
        around = np.s_[i - 1 : i + 2, j - 1 : j + 2]
        if np.ptp(level[around]) == np.ptp(winner[around]) == 0:  # no line passes
            strength = (level[i, j] + 0.5) / 5
            expected = (1 - strength) * np.array(to_rgb(PAPER)) + strength * np.array(to_rgb(FILLS[winner[i, j]]))
            shown = picture[round(i / 99 * 399), round(j / 99 * 399)]
            np.testing.assert_allclose(shown, expected, atol=0.02)
            n_seen += 1
    assert n_seen > 200


def test_margins_against_brute_force(iris, species, ax):
    display = DecisionSurfaceDisplay.from_estimator(species, *iris, columns=(2, 3), grid_resolution=8, ax=ax)
    for p, margins in zip(display.probability.reshape(-1, 3), display._margins.reshape(-1, 3), strict=True):
        others = [max(p[j] for j in range(3) if j != k) for k in range(3)]
        np.testing.assert_allclose(margins, p - others)


def test_distance_and_knowledge_of_many_classes(iris, species, ax):
    X, _ = iris
    display = DecisionSurfaceDisplay.from_estimator(species, *iris, columns=(2, 3), grid_resolution=GRID, ax=ax)
    i, j = 20, 14
    row = X.median().to_frame().T
    row.iloc[0, 2:] = display.xx0[i, j], display.xx1[i, j]
    mu, v = (part[0] for part in species.latent_mean_and_variance(row))
    second, first = np.argsort(species.predict_proba(row)[0])[1:]
    shifted = mu + species.link_.offset / species.link_.slope
    expected = (shifted[first] - shifted[second]) / np.sqrt(v[first] + v[second])
    assert display.distance[i, j] == pytest.approx(expected)
    prior = species.kernel_.diagonal(row.to_numpy())[0]
    assert display.knowledge[i, j] == pytest.approx(1 - v.mean() / prior)


def test_other_classifiers_of_many_classes(iris, ax):
    fitted = LogisticRegression(max_iter=1000).fit(iris[0].iloc[:, :2], iris[1])
    display = DecisionSurfaceDisplay.from_estimator(fitted, *iris, grid_resolution=GRID, ax=ax)
    assert display.distance is None
    assert display.knowledge is None


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fitted", "options", "message"),
    [
        (lambda X, y: BayesianSVC().fit(np.hstack([X, X[:, :1]]), y), {}, "fitted on 3 columns, but X has 2"),
        (lambda X, y: SVC().fit(X, y), {}, "needs predict_proba"),
        (lambda X, y: BayesianLinearSVC().fit(X, y), {"columns": (0,)}, "two different positions"),
        (lambda X, y: BayesianLinearSVC().fit(X, y), {"columns": (1, 1)}, "two different positions"),
        (lambda X, y: BayesianLinearSVC().fit(X, y), {"columns": ("a", "b")}, "no column names"),
        (lambda X, y: BayesianLinearSVC().fit(X, y), {"columns": (0, 5)}, "5, which is not a column"),
        (lambda X, y: BayesianLinearSVC().fit(X, y), {"at": {0: 1.0}}, r"\[0\] vary"),
        (lambda X, y: LogisticRegression().fit(X, np.arange(len(X)) % 7), {}, "At most 6 classes"),
    ],
)
def test_clear_errors(fitted, options, message, moons):
    with pytest.raises(ValueError, match=message):
        DecisionSurfaceDisplay.from_estimator(fitted(*moons), *moons, **options)


def test_axes_hold_numbers(moons):
    X, y = moons
    table = pd.DataFrame({"colour": np.where(X[:, 0] > 0, "red", "blue"), "width": X[:, 0], "height": X[:, 1]})
    fitted = TableClassifier(BayesianLinearSVC()).fit(table, y)
    with pytest.raises(ValueError, match="'colour' is not numeric"):
        DecisionSurfaceDisplay.from_estimator(fitted, table, y)
    with pytest.raises(ValueError, match="'weight', which is not a column of X"):
        DecisionSurfaceDisplay.from_estimator(fitted, table, y, columns=("width", "weight"))


def test_unfitted_models_are_refused(moons):
    with pytest.raises(NotFittedError):
        DecisionSurfaceDisplay.from_estimator(BayesianSVC(), *moons)
