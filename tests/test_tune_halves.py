"""Whether the variance of many classes is held or free."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

from softmargin import BayesianSVC
from softmargin.columns import describe
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import Rivals
from softmargin.monitor import InterruptedFitWarning, Monitor
from softmargin.steps import ascend
from softmargin.tune import Judges, LabelledRows, Space, choose_kernel, halves
from softmargin.tune.evidence import LOGISTIC_JUDGE, Evidence
from softmargin.tune.space import HELD, VARIANCES

K = 3
KERNEL = 4.0 * RBF((1.4, 1.4)) + Constant(1.0)


@pytest.fixture
def rows(rng):
    """A row of weight two stands for two copies."""
    X = rng.normal(size=(121, 2))
    y = (X + 0.3 * rng.normal(size=(121, 2))).argmax(axis=1) + (X[:, 0] > 1)
    weight = rng.choice([1.0, 2.0], size=121)
    return Judges.of(LabelledRows(X, y.astype(float), weight, np.ones(121)), n_classes=K)


def losses_of(monkeypatch, held, free):
    """What the two models are to have lost."""
    given = iter((held, free))
    monkeypatch.setattr(Judges, "losses_on", lambda self, others, *_: next(given) + np.zeros(len(others.y)))


def test_halves_are_all_rows_of_every_class(rows):
    one, other = halves.halves(rows, describe(rows.X, rows.weight))
    both = np.vstack([np.column_stack(part[:2]) for part in (one, other)])
    assert_allclose(np.sort(both, axis=0), np.sort(np.column_stack(rows[:2]), axis=0))
    for label in range(K):
        assert np.sum(one.y == label) - np.sum(other.y == label) in (0, 1)
    assert_allclose(one.weight.sum() + other.weight.sum(), len(rows.y))


def test_halves_do_not_depend_on_what_classes_are_called(rows):
    columns = describe(rows.X, rows.weight)
    renamed = rows._replace(y=np.array([2.0, 0.0, 1.0])[rows.y.astype(int)])
    for part, other in zip(halves.halves(rows, columns), halves.halves(renamed, columns), strict=True):
        assert_allclose(part.X, other.X)


def test_predicted_losses_are_those_of_a_model(rows):
    """With few other rows to fit its link by, a model has nearly the losses that it had with its own."""
    one, other = halves.halves(rows, describe(rows.X, rows.weight))
    losses = one.losses_on(other, KERNEL, Rivals())
    fixed = {"tune": None, "inducing": one.points, "tol": 1e-4, "inference": "cavi"}
    model = BayesianSVC(KERNEL, **fixed).fit(one.X, one.y, sample_weight=one.weight)
    proba = model.predict_proba(other.X)[np.arange(len(other.y)), other.y.astype(int)]
    assert other.weight @ losses <= other.weight @ -np.log(proba)
    assert_allclose(np.mean(losses), -np.mean(np.log(proba)), rtol=0.3)


@pytest.mark.parametrize(("held", "free", "deviation"), [(0.5, 0.6, HELD), (0.5, 0.5, HELD), (0.6, 0.5, VARIANCES)])
def test_the_better_forecast_decides(rows, monkeypatch, held, free, deviation):
    losses_of(monkeypatch, held, free)
    assert halves.variance_deviation(rows, KERNEL, describe(rows.X, rows.weight), Rivals()) == deviation


def _first(judges, n):
    return {"X": judges.X[:n], "y": judges.y[:n], "weight": np.ones(n), "unit": np.ones(n)}


def test_nothing_is_asked_of_few_rows_or_of_kernels_without_a_variance(rows, monkeypatch):
    monkeypatch.setattr(halves, "halves", None)
    columns = describe(rows.X, rows.weight)
    few = rows._replace(**_first(rows, 50))
    assert halves.variance_deviation(few, KERNEL, columns, Rivals()) == VARIANCES
    assert halves.variance_deviation(rows, RBF((1.0, 1.0)), columns, Rivals()) == VARIANCES


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("n_labels", [90, 80])
def test_nothing_is_asked_of_a_half_that_is_all_but_empty(n_labels):
    """Where (nearly) every row has a label of its own, there is no second row of it to predict."""
    X = np.random.default_rng(0).normal(size=(90, 2))
    model = BayesianSVC(random_state=0, n_inducing=10).fit(X, np.arange(90) % n_labels)
    assert len(model.classes_) == n_labels
    assert np.isfinite(model.predict_proba(X)).all()


def test_time_that_is_over_leaves_the_variance_free(rows):
    deviation = halves.variance_deviation(rows, KERNEL, describe(rows.X, rows.weight), Rivals(), Monitor(max_time=1e-9))
    assert deviation == VARIANCES


@pytest.mark.parametrize("at_kernel", [2, 30])
def test_one_interrupt_ends_all_of_the_tuning(rng, monkeypatch, at_kernel):
    """While halves are asked, or in the first of several panels: no more kernels follow than a choice needs."""
    X = rng.normal(size=(1500, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=1500), [-0.5, 0.5])
    at, seen = Evidence.at, []

    def interrupted(self, kernel):
        seen.append(kernel)
        if len(seen) == at_kernel:
            raise KeyboardInterrupt
        return at(self, kernel)

    monkeypatch.setattr(Evidence, "at", interrupted)
    with pytest.warns(InterruptedFitWarning):
        model = BayesianSVC(random_state=0).fit(X, y)
    assert model.stop_reason_ == "interrupt"
    assert len(seen) <= at_kernel + 3
    assert model.score(X, y) > 0.6


@pytest.mark.parametrize("how", ["logistic", "loo"])
def test_an_interrupt_while_halves_are_predicted_ends_the_tuning(rows, how, monkeypatch):
    """The ascent keeps what it has; whoever asked for it has to say so."""
    at, seen = Evidence.at, []
    monkeypatch.setattr(Evidence, "at", lambda self, kernel: (seen.append(kernel), at(self, kernel))[1])

    def interrupted(*args, **settings):
        seen.clear()
        return ascend(*args, **settings)._replace(reason="interrupt")

    monkeypatch.setattr("softmargin.tune.judges.ascend", interrupted)
    with pytest.warns(InterruptedFitWarning):
        model = BayesianSVC(tune=how, random_state=0).fit(rows.X, rows.y)
    assert model.stop_reason_ == "interrupt"
    assert len(seen) <= 3
    with pytest.raises(KeyboardInterrupt):  # nobody is there to keep it
        rows.left_out_losses(KERNEL, Rivals())


def test_a_held_variance_has_a_narrower_prior():
    x = np.array([0.5, 0.0, 0.0, 0.0, 0.0])
    held, free = (Space.around(KERNEL, variances=deviation).log_prior(x)[0] for deviation in (HELD, VARIANCES))
    assert_allclose([held, free], [-2.0, -0.125])


def test_two_classes_and_other_judges_are_as_they_were(rows, monkeypatch):
    monkeypatch.setattr("softmargin.tune.variance_deviation", None)
    two = Judges.of(LabelledRows(rows.X, np.where(rows.y > 0, 1.0, -1.0), rows.weight, rows.unit))
    columns = describe(rows.X, rows.weight)
    assert choose_kernel([two], KERNEL, columns, "logistic", LOGISTIC_JUDGE).kernel is not None
    assert choose_kernel([rows], KERNEL, columns, "bound", Rivals()).kernel is not None


def test_images_of_digits_are_told_by_a_kernel_of_moderate_variance():
    """Among 64 columns a large variance, which evidence prefers, has a greater loss on rows to come."""
    X, y = load_digits(return_X_y=True)
    model = BayesianSVC(random_state=0).fit(X[:500], y[:500])
    assert np.exp(model.kernel_.theta[0]) < 4 * np.exp(6 * HELD) + 1
