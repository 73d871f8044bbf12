"""Losses that come as objects: a user's own, and the library's without their words."""

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import contracts
import softmargin
from softmargin import (
    BayesianGPC,
    BayesianKernelMachine,
    BayesianLinearSVC,
    BayesianMixedSVC,
    BayesianSVC,
)
from softmargin.arrays import expit, log_expit
from softmargin.likelihoods import (
    LOSSES,
    Derivatives,
    Gaussian,
    Hinge,
    Logistic,
    OneVersusRest,
    Probit,
    Quadrature,
    Rivals,
    Sites,
    Softmax,
    Taylor,
    given_likelihood,
    known_loss,
)
from softmargin.report.words import descriptions, model_sentence
from softmargin.store import StoreError


@dataclass(frozen=True)
class SmoothHinge:
    """The hinge, its corner rounded: log p = -2 c log(1 + exp(t)), t = (1 - y f) / c."""

    width: float = 1.0

    def derivatives(self, y, f):
        t = (1 - y * f) / self.width
        inside = expit(t)
        return Derivatives(2 * self.width * log_expit(-t), 2 * y * inside, -2 * inside * expit(-t) / self.width)


class PlainLogistic:
    """The logistic likelihood as somebody else would write it: no dataclass, a plain tuple."""

    def derivatives(self, y, f):
        return log_expit(y * f), y * expit(-y * f), -expit(f) * expit(-f)


class OwnSites:
    """The hinge by another class, with everything that a likelihood has."""

    is_bound, needs_guard, couples, longest_step, two_moment, site_is_curvature = True, True, False, 1.0, False, True
    log_density, sites, curvature = (getattr(Hinge(), name) for name in ("log_density", "sites", "curvature"))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    return X, np.where(X[:, 0] - X[:, 1] + rng.logistic(size=160) > 0, "yes", "no")


MODELS = [
    BayesianSVC(n_inducing=10, tune=None, random_state=0),
    BayesianGPC(n_inducing=10, tune=None, random_state=0),
    BayesianLinearSVC(),
    BayesianMixedSVC(),
    BayesianKernelMachine(n_frequencies=16, tune=None, inference="cavi", random_state=0),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


def moments(model, X):
    return np.array(model.latent_mean_and_variance(X))


# The same as the word, where there is one --------------------------------------------------------


@pytest.mark.parametrize("word", LOSSES)
def test_likelihoods_that_have_a_word_are_known_by_it(word):
    assert known_loss(copy.deepcopy(LOSSES[word])) == word


def test_others_are_themselves():
    assert known_loss(Quadrature(Logistic(), n_nodes=25)) == Quadrature(Logistic(), n_nodes=25)
    assert known_loss(SmoothHinge()) == Quadrature(SmoothHinge())
    assert known_loss(Probit()) == "probit"
    own = OwnSites()
    assert known_loss(own) is own


@every_model
@pytest.mark.parametrize(
    ("given", "same"), [(PlainLogistic(), Logistic()), (OwnSites(), Hinge())], ids=["smooth", "sites"]
)
def test_a_loss_written_anew_gives_the_fit_of_the_library_s(model, given, same, table):
    X, y = table
    # One link for both: a loss that has a word may have a link of its own.
    own, library = (clone(model).set_params(loss=loss, link="loo").fit(X, y) for loss in (given, same))
    assert_allclose(moments(own, X), moments(library, X), rtol=1e-6)
    assert_allclose(own.predict_proba(X), library.predict_proba(X), rtol=1e-6)
    assert own.bound_ == pytest.approx(library.bound_)
    assert isinstance(library.loss_, str)
    assert not isinstance(own.loss_, str)


@pytest.mark.parametrize("how", ["weston-watkins", "ovr"])
def test_more_than_two_classes(how, table):
    X, y = table
    y = np.where(X[:, 2] > 0.7, "other", y)
    own, library = (BayesianLinearSVC(loss=loss, multi_class=how).fit(X, y) for loss in (PlainLogistic(), "logistic"))
    assert_allclose(own.predict_proba(X), library.predict_proba(X), rtol=1e-5)
    auto = BayesianLinearSVC(loss=PlainLogistic()).fit(X, y)
    if how == "weston-watkins":  # of an own loss nobody knows that it is that of a softmax
        assert_array_equal(auto.coef_, own.coef_)


def test_gaps_batches_and_selected_columns(table):
    X, y = table
    holed = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    for rows, settings in ((holed, {}), (X, {"prior": "laplace-zero"})):
        own, library = (BayesianLinearSVC(loss=loss, **settings).fit(rows, y) for loss in (PlainLogistic(), "logistic"))
        assert_allclose(own.coef_, library.coef_, rtol=1e-6, atol=1e-9)
    streams = [BayesianLinearSVC(loss=loss) for loss in (PlainLogistic(), "logistic")]
    for part in (slice(0, 80), slice(80, 160)):
        for stream in streams:
            stream.partial_fit(X[part], y[part], classes=["no", "yes"])
    assert_allclose(streams[0].coef_, streams[1].coef_, rtol=1e-6)


@pytest.mark.parametrize("tune", ["logistic", "bound", "loo"])
def test_kernels_are_judged(tune, table):
    X, y = table
    own, library = (
        BayesianSVC(n_inducing=8, tune=tune, loss=loss, random_state=0).fit(X[:80], y[:80])
        for loss in (PlainLogistic(), "logistic")
    )
    assert_allclose(own.kernel_.theta, library.kernel_.theta, rtol=1e-4, atol=1e-4)


def test_draws_and_modes_of_likelihoods_that_have_a_word(table):
    X, y = table
    by_word, by_object = (BayesianLinearSVC(loss=loss, inference="ecm").fit(X, y) for loss in ("hinge", Hinge()))
    assert_array_equal(by_word.coef_, by_object.coef_)
    settings = {"inference": "gibbs", "n_draws": 20, "n_chains": 2, "random_state": 0}
    with pytest.warns(softmargin.diagnostics.MixingWarning):
        drawn = BayesianLinearSVC(loss=Quadrature(Logistic()), **settings).fit(X, y)
    assert drawn.loss_ == "logistic"


# As scikit-learn expects of a parameter -----------------------------------------------------------


def test_clones_copies_grids_and_the_way_it_is_shown(table):
    X, y = table
    model = BayesianLinearSVC(loss=SmoothHinge(0.5))
    assert repr(model) == "BayesianLinearSVC(loss=SmoothHinge(width=0.5))"
    assert clone(model).loss == model.loss == model.get_params()["loss"]
    fitted = model.fit(X, y)
    assert fitted.loss == SmoothHinge(0.5)  # as it was given
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert_array_equal(other.predict_proba(X), fitted.predict_proba(X))
        assert other.loss_ == fitted.loss_
    grid = GridSearchCV(BayesianLinearSVC(), {"loss": ["hinge", SmoothHinge(), Probit()]}, cv=2).fit(X, y)
    assert len(grid.cv_results_["mean_test_score"]) == 3


def test_reports_say_what_was_given(table):
    X, y = table
    svc, gpc = (clone(model).set_params(loss=SmoothHinge()).fit(X, y) for model in MODELS[:2])
    assert "a loss other than the hinge" in model_sentence(svc)
    assert "a loss other than the logistic one" in model_sentence(gpc)
    assert "SmoothHinge(width=1.0)" in dict(descriptions(svc))["Loss"]


# Files -------------------------------------------------------------------------------------------


def test_files_hold_the_library_s_likelihoods_and_no_others(table, tmp_path):
    X, y = table
    fine = BayesianLinearSVC(loss=Quadrature(Probit(), n_nodes=48)).fit(X, y)
    fine.save(tmp_path / "fine.model")
    same = softmargin.load(tmp_path / "fine.model")
    assert same.loss == same.loss_ == fine.loss_
    assert_array_equal(same.predict_proba(X), fine.predict_proba(X))
    same.partial_fit(X, y)
    own = BayesianLinearSVC(loss=SmoothHinge()).fit(X, y)
    with pytest.raises(StoreError, match=r"model\.loss is a .*SmoothHinge, which files cannot hold.*pickle"):
        own.save(tmp_path / "own.model")
    assert not (tmp_path / "own.model").exists()


@pytest.mark.filterwarnings("ignore:Time was up")
def test_fits_go_on_from_checkpoints_without_the_loss_in_them(table, tmp_path):
    X, y = table
    path = tmp_path / "fit.ckpt"
    settings = {"loss": SmoothHinge(), "n_inducing": 10, "tune": None, "random_state": 0, "tol": 1e-9}
    whole = BayesianSVC(**settings).fit(X, y)
    cut = BayesianSVC(**settings, checkpoint=path, max_time=1e-9).fit(X, y)
    assert cut.stop_reason_ == "time"
    assert path.exists()
    rest = BayesianSVC(**settings, checkpoint=path).fit(X, y)
    assert rest.loss_ == whole.loss_
    assert_allclose(moments(rest, X), moments(whole, X), rtol=1e-4)
    cut = BayesianSVC(**settings, checkpoint=path, max_time=1e-9).fit(X, y)
    with pytest.raises(ValueError, match="differs in loss"):
        BayesianSVC(**settings | {"loss": SmoothHinge(2.0)}, checkpoint=path).fit(X, y)


# Wrong objects -----------------------------------------------------------------------------------


class NoFlags:
    def sites(self, y, mu, v):
        return -((y - mu) ** 2) - v, 2 + 0 * mu, 2 * y


@dataclass(frozen=True)
class Wrong(Gaussian):
    """Sites that are wrong in one way."""

    how: str = ""

    def sites(self, y, mu, v):
        l, w, b = super().sites(y, mu, v)  # noqa: E741
        wrong = {
            "two": (l, w),
            "total": (l.sum(), w, b),
            "zero": Sites(l, np.where(v > 0, w, np.nan), b),
            "negative": Sites(l, np.where(mu > 0, -w, w), b),
            "no names": (l, w, b),
            "one array": l,
            "of one label": Sites(l, np.where((y > 0) & (mu < 0), -w, w), b),
        }
        return wrong[self.how]


class OneNode:
    """Derivatives that do not know that there are many nodes."""

    def derivatives(self, y, f):
        return Logistic().derivatives(y, f[0])


class Steep:
    """The slope of one label has no end."""

    def derivatives(self, y, f):
        value, slope, curvature = Logistic().derivatives(y, f)
        return value, np.where(y < 0, np.inf, slope), curvature


WRONG = {
    "a number": (3, "loss must be a name, a likelihood with sites.*curvature; got 3"),
    "a function": (np.exp, "or a log-likelihood with derivatives"),
    "a class": (Hinge, r"not its class: write Hinge\(\)"),
    "no flags": (NoFlags(), "has sites, but lacks log_density, curvature, is_bound.*derivatives"),
    "two parts": (
        Wrong(how="two"),
        r"sites\(y, mu, v\) must return l, w, b, each of shape \(28,\), got \[\(28,\), \(28,\)\]",
    ),
    "one array": (Wrong(how="one array"), r"must return l, w, b, each of shape \(28,\), got ndarray"),
    "a sum": (Wrong(how="total"), "must return l, w, b, each of shape"),
    "no names": (Wrong(how="no names"), r"must return softmargin.likelihoods.Sites\(l, w, b\)"),
    "not at zero": (Wrong(how="zero"), "w of sites.*must be finite, even for variances of zero"),
    "negative": (Wrong(how="negative"), "negative precision w at y=-1, mu=0.5, v=0"),
    "of one label": (Wrong(how="of one label"), "negative precision w at y=1, mu=-30, v=0"),
    "steep": (Steep(), r"slope of derivatives\(y, f\) must be finite"),
    "one node": (OneNode(), r"derivatives\(y, f\) must return value, slope, curvature, each of shape \(7, 2\)"),
    "nothing within": (Quadrature(Hinge()), r"Hinge\(\) has no derivatives"),
    "many classes": (Softmax(), "likelihood of one latent value.*use multi_class instead"),
    "classes apart": (OneVersusRest(Hinge()), "likelihood of one latent value"),
    "rivals": (Rivals(), "likelihood of one latent value"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_an_object_is_said(case, table):
    loss, message = WRONG[case]
    for model in (BayesianLinearSVC(loss=loss), BayesianGPC(loss=loss)):
        with pytest.raises(ValueError, match=message):
            model.fit(*table)
        assert not hasattr(model, "loss_")


REFUSED = [
    (
        BayesianLinearSVC(inference="gibbs"),
        "inference='gibbs' relies on an augmentation, which loss=SmoothHinge.*use one",
    ),
    (BayesianLinearSVC(inference="ecm"), "inference='ecm' relies on an augmentation"),
    (BayesianGPC(inference="gibbs"), "inference='gibbs' samples from the exact posterior"),
    (BayesianLinearSVC(multi_class="softmax"), "multi_class='softmax' requires loss='logistic', got SmoothHinge"),
    (BayesianSVC(multi_class="crammer-singer"), "multi_class='crammer-singer' requires loss='auto' or 'hinge'"),
    (BayesianGPC(multi_class="softmax"), "has its own bound, which loss=SmoothHinge"),
    (BayesianGPC(tune="alternate"), "works on quadratics, which loss=SmoothHinge.*use loss='jj' or 'taylor'"),
]


@pytest.mark.parametrize(("model", "message"), REFUSED, ids=lambda part: part if isinstance(part, str) else "")
def test_what_rests_on_other_losses_is_refused(model, message, table):
    with pytest.raises(ValueError, match=message):
        clone(model).set_params(loss=SmoothHinge()).fit(*table)


def test_losses_that_are_no_bound_do_not_tune(table):
    for classifier in (BayesianSVC, BayesianGPC):
        with pytest.raises(ValueError, match=r"loss=Taylor\(.*has no bound to tune by"):
            classifier(loss=Taylor(SmoothHinge()), tune="bound").fit(*table)


def test_networks_take_them_too(table):
    torch = pytest.importorskip("torch")
    nn = pytest.importorskip("softmargin.nn")
    X, y = (torch.tensor(part) for part in (table[0], (table[1] == "yes").astype(int)))
    own, library = (nn.MarginHead(3, 2, n_inducing=10, loss=loss).double() for loss in (PlainLogistic(), "logistic"))
    for head in (own, library):
        head.fit(X, y)
    assert_allclose(own.predict_proba(X), library.predict_proba(X), rtol=1e-5)
    with pytest.raises(ValueError, match="is not a bound"):
        nn.MarginHead(3, 2, loss=Taylor(SmoothHinge()))


# Nodes -------------------------------------------------------------------------------------------


def test_sharp_losses_have_as_many_nodes_as_they_ask_for():
    mu, v = (part.ravel() for part in np.meshgrid(np.linspace(-2, 3, 11), [0.0, 0.02, 0.05, 0.2, 1.0]))
    x = np.linspace(-12, 12, 100_001)
    density = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    model = SmoothHinge(0.25)
    exact = np.array([density @ model.derivatives(1.0, m + s * x).value for m, s in zip(mu, np.sqrt(v), strict=True)])
    few, many = (Quadrature(model, n).sites(np.ones_like(mu), mu, v).l for n in (24, 192))
    assert np.abs(few - exact).max() > 1e-5
    assert_allclose(many, exact, atol=1e-9)  # of narrow rows too, which have a quarter of the nodes
    for check in contracts.LIKELIHOOD:
        check(contracts.LikelihoodCase(Quadrature(model, n_nodes=192), exact=1.0, tolerance=1e-8))


def test_few_nodes_are_not_divided():
    mu, v = np.linspace(-2, 2, 9), np.full(9, 0.02)
    usual, twelve, six = (Quadrature(Logistic(), n).sites(np.ones(9), mu, v) for n in (24, 12, 6))
    assert_array_equal(usual.l, six.l)
    assert_array_equal(twelve.l, six.l)


@pytest.mark.parametrize(("n", "message"), [(0, "integer >= 1"), (2.5, "integer >= 1"), (301, "at most 300, got 301")])
def test_numbers_of_nodes_that_are_none(n, message):
    with pytest.raises(ValueError, match=f"n_nodes must be .*{message}"):
        Quadrature(Logistic(), n_nodes=n)


@pytest.mark.parametrize("way", [lambda model: model, Taylor], ids=["nodes", "taylor"])
def test_objects_are_asked_about_their_two_labels_and_no_others(way):
    asked = set()

    class Asked(Logistic):
        def derivatives(self, y, f):
            asked.update(np.ravel(y).tolist())
            return super().derivatives(y, f)

    given_likelihood(way(Asked()))
    assert asked == {-1.0, 1.0}


@pytest.mark.parametrize("length", [20, 80, 81, 200])
def test_long_objects_are_shown_by_their_beginning(length):
    text = "x" * (length - 2)  # and two quotes
    with pytest.raises(ValueError, match="returns its value, slope and curvature; got") as caught:
        given_likelihood(text)
    shown = repr(text) if length <= 80 else repr(text)[:77] + "..."
    assert f"; got {shown}." in str(caught.value)


def test_objects_are_checked_once_and_returned():
    assert given_likelihood(Gaussian(0.5)) == Gaussian(0.5)
    assert isinstance(given_likelihood(SmoothHinge()), Quadrature)
