import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

from softmargin import BayesianLinearSVC, BayesianMixedSVC
from softmargin.plot import RandomEffectsDisplay
from softmargin.tables import TableClassifier

matplotlib.use("Agg")


def visits(n_groups, n_classes=2):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(n_groups), 8)
    frame = pd.DataFrame({"patient": [f"p${k}" for k in patient], "month": np.tile(np.arange(8.0), n_groups)})
    frailty, slope = 2 * rng.normal(size=n_groups)[patient], 0.3 * rng.normal(size=n_groups)[patient]
    value = frailty + slope * frame["month"] + rng.logistic(size=len(frame))
    frame["ill"] = value > 0 if n_classes == 2 else np.digitize(value, [-1, 1])
    return frame


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def model():
    return BayesianMixedSVC("ill ~ month + (1 + month | patient)").fit(visits(30))


def test_a_panel_for_each_effect(model):
    display = RandomEffectsDisplay.from_estimator(model, level=0.8, ax=Figure().subplots(1, 2))
    assert [panel.title for panel in display.panels] == ["Intercept by patient", "month by patient"]
    frame = model.random_effects(0.8)
    for panel, ax in zip(display.panels, display.axes_, strict=True):
        own = frame[frame["effect"] == panel.effect].set_index("group").loc[panel.groups]
        np.testing.assert_array_equal(panel.mean, np.sort(own["mean"]))
        np.testing.assert_array_equal(panel.low, own["low"])
        np.testing.assert_array_equal(panel.high, own["high"])
        assert ax.get_title(loc="left") == panel.title
        assert ax.get_xlabel() == "effect, 80 % intervals"


def test_marks_and_intervals_carry_the_numbers(model):
    display = RandomEffectsDisplay.from_estimator(model, ax=Figure().subplots(1, 2))
    panel, ax = display.panels[0], display.axes_[0]
    np.testing.assert_allclose(display.marks_[0].get_offsets(), np.column_stack([panel.mean, np.arange(30)]))
    segments = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(segments[:, :, 0], np.column_stack([panel.low, panel.high]))
    hollow = display.marks_[0].get_facecolor()[:, :3].min(axis=1) == 1
    np.testing.assert_array_equal(hollow, (panel.low <= 0) & (panel.high >= 0))
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [group.replace("$", r"\$") for group in panel.groups]


def test_of_many_groups_the_lowest_and_the_highest_are_shown(model):
    display = RandomEffectsDisplay.from_estimator(model, ax=Figure().subplots(1, 2), n_shown=7)
    panel, ax = display.panels[0], display.axes_[0]
    shown = display.marks_[0].get_offsets()
    np.testing.assert_allclose(shown[:, 0], panel.mean[[0, 1, 2, 26, 27, 28, 29]])
    assert shown[3, 1] - shown[2, 1] > 1
    assert [text.get_text() for text in ax.texts] == ["23 groups between these"]
    every = display.plot(ax=Figure().subplots(1, 2), n_shown=None)
    assert len(every.marks_[0].get_offsets()) == 30
    assert not every.axes_[0].texts


def test_many_groups_without_names(ax):
    model = BayesianMixedSVC("ill ~ (1 | patient)").fit(visits(70))
    display = RandomEffectsDisplay.from_estimator(model, ax=ax, n_shown=None)
    assert len(display.marks_[0].get_offsets()) == 70
    assert not len(ax.get_yticks())


def test_one_factor_of_several(ax):
    frame = visits(20).assign(ward=lambda table: np.arange(len(table)) % 5)
    model = BayesianMixedSVC("ill ~ month + (1 | patient) + (1 | ward)").fit(frame)
    display = RandomEffectsDisplay.from_estimator(model, factor="ward", ax=ax)
    assert [panel.factor for panel in display.panels] == ["ward"]
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    with pytest.raises(ValueError, match=r"There are 2 panels .* but 1 axes"):
        RandomEffectsDisplay.from_estimator(model, ax=ax)
    with pytest.raises(ValueError, match="factor='doctor' does not exist"):
        RandomEffectsDisplay.from_estimator(model, factor="doctor")


def test_every_class_has_effects(ax):
    model = BayesianMixedSVC("ill ~ month + (1 | patient)").fit(visits(15, n_classes=3))
    display = RandomEffectsDisplay.from_estimator(model, ax=Figure().subplots(1, 3))
    assert [panel.label for panel in display.panels] == [0, 1, 2]
    assert display.panels[1].title == "Intercept by patient, 1"
    one = RandomEffectsDisplay.from_estimator(model, label=2, ax=ax)
    np.testing.assert_array_equal(one.panels[0].mean, display.panels[2].mean)
    with pytest.raises(ValueError, match="label=7 does not exist"):
        RandomEffectsDisplay.from_estimator(model, label=7)


def test_frames_and_tables(model, ax):
    frame = model.random_effects()
    display = RandomEffectsDisplay.from_frame(frame[frame["effect"] == "month"], ax=ax)
    assert ax.get_xlabel() == "effect"
    assert len(display.panels) == 1
    fitted = TableClassifier(BayesianMixedSVC(groups="patient")).fit(visits(12), "ill")
    inside = RandomEffectsDisplay.from_estimator(fitted, ax=Figure().subplots())
    assert len(inside.panels[0].groups) == 12


def test_new_axes_stand_side_by_side(model):
    display = RandomEffectsDisplay.from_estimator(model)
    assert len(display.figure_.axes) == 2
    matplotlib.pyplot.close(display.figure_)


def test_clear_errors(model):
    frame = visits(10)
    with pytest.raises(NotFittedError):
        RandomEffectsDisplay.from_estimator(BayesianMixedSVC("ill ~ (1 | patient)"))
    with pytest.raises(ValueError, match="BayesianLinearSVC has no random effects"):
        RandomEffectsDisplay.from_estimator(BayesianLinearSVC().fit(frame[["month"]], frame["ill"]))
    with pytest.raises(ValueError, match="no grouping factor"):
        RandomEffectsDisplay.from_estimator(BayesianMixedSVC("ill ~ month").fit(frame))
    with pytest.raises(ValueError, match="n_shown must be an integer >= 2"):
        RandomEffectsDisplay.from_estimator(model, n_shown=1)
    with pytest.raises(ValueError, match="label=True does not exist; the model has two classes"):
        RandomEffectsDisplay.from_estimator(model, label=True)
