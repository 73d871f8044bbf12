"""Rows that are left out of particles, and the link that this makes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.datasets import load_iris, make_moons

from softmargin import BayesianKernelMachine, inference
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.estimators import particle_stream
from softmargin.estimators.particle_stream import without_each
from softmargin.gaussian import ClassBelief, from_natural
from softmargin.inference import InferredAscent
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import OneVersusRest, Quadrature
from softmargin.links import log_losses
from softmargin.loo import left_out_of
from softmargin.priors import Classwise, Ridge
from softmargin.rows import ClasswiseRows, LinearRows, beneath

SETTINGS = {"kernel": 4.0 * RBF(0.7) + Constant(1.0), "tune": None, "inference": "stein", "n_frequencies": 32}


class Kept(BayesianKernelMachine):
    """Keeps what particles set out from, and what they came to."""

    def _linked(self, start, settled, temperature):
        self.start, self.settled = start, settled
        return super()._linked(start, settled, temperature)


def mode(phi, y, weight):
    """Weights of the greatest density under a standard normal prior, and the precision there, by Newton's steps."""
    u = np.zeros(phi.shape[1])
    for _ in range(30):
        p = expit(-y * (phi @ u))
        precision = np.eye(len(u)) + (phi.T * (weight * p * (1 - p))) @ phi
        u = u + np.linalg.solve(precision, phi.T @ (weight * y * p) - u)
    return u, precision


def test_particles_at_a_mode_lose_a_row_as_the_mode_does(rng):
    """All at one place, far from where the belief is: one step of Newton leads near the mode without the row.

    Half of the rows, each for two, know about as much.
    """
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1.0, -1.0)
    rows = LinearRows(np.zeros(2), np.ones(2))
    phi = rows.lift(X).phi
    at, precision = mode(phi, y, np.ones(60))
    belief = from_natural(np.eye(3), np.ones(3))
    problem = Problem(Table(X, y, np.ones(60), 60), rows, Quadrature(), Ridge.isotropic(3))
    moments = phi @ at, np.zeros(60)
    without = left_out_of(moments, problem, belief, np.ones(60))
    refits = np.array([phi[i] @ mode(phi, y, np.arange(60) != i)[0] for i in range(60)])
    moved = refits - phi @ at
    assert np.abs(moved).max() > 0.2
    # What one step leaves is of second order: of a row that moves by .4 a tenth of that.
    assert_allclose(without.mu - phi @ at, moved, atol=0.05, rtol=0.1)
    # Variances that particles have are kept, and grow by what the row told: at the mode, by a Gaussian without it.
    bend = expit(phi @ at) * expit(-phi @ at)
    for i in range(60):
        rest = precision - bend[i] * np.outer(phi[i], phi[i])
        wider = phi[i] @ (np.linalg.inv(rest) - np.linalg.inv(precision)) @ phi[i]
        assert without.v[i] == pytest.approx(wider, rel=1e-9)
    half = Problem(Table(X[::2], y[::2], np.full(30, 2.0), 60), rows, Quadrature(), Ridge.isotropic(3))
    few = left_out_of((moments[0][::2], moments[1][::2]), half, belief, np.ones(30))
    assert_allclose(few.mu, without.mu[::2], atol=0.1)


def test_one_of_several_copies_is_left_out_as_one_of_as_many_rows(rng):
    """Four copies are a row of weight four; and where it stands for others too, these remain."""
    X, times = rng.normal(size=(30, 2)), rng.integers(1, 5, 30)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1.0, -1.0)
    rows, belief = LinearRows(np.zeros(2), np.ones(2)), from_natural(np.eye(3), np.ones(3))
    mu = rng.normal(size=30)
    merged = Problem(Table(X, y, times.astype(float), 30), rows, Quadrature(), Ridge.isotropic(3))
    copies = np.repeat(np.arange(30), times)
    table = Table(X[copies], y[copies], np.ones(len(copies)), 30)
    one = left_out_of((mu, np.ones(30)), merged, belief, np.ones(30), times.astype(float))
    other = left_out_of(
        (mu[copies], np.ones(len(copies))), merged.over(table), belief, np.ones(len(copies)), np.ones(len(copies))
    )
    phi, bend = rows.lift(X).phi, expit(mu) * expit(-mu)
    _, w, b = Quadrature().sites(y, mu, np.ones(30))
    bend = Quadrature().curvature(y, mu, np.ones(30))
    precision = np.eye(3) + (phi.T * (times * bend)) @ phi
    for i in range(30):
        gone = np.linalg.inv(precision - bend[i] * np.outer(phi[i], phi[i]))
        assert one.mu[i] == pytest.approx(mu[i] - phi[i] @ gone @ phi[i] * (b - w * mu)[i], rel=1e-9)
        wider = phi[i] @ (gone - np.linalg.inv(precision)) @ phi[i]
        assert one.v[i] == pytest.approx(1 + wider, rel=1e-9)
    first = np.searchsorted(copies, np.arange(30))
    assert_allclose(other.mu[first][times == 1], one.mu[times == 1], rtol=1e-9)


def test_a_row_that_makes_up_its_own_spread_cannot_be_left_out(rng):
    """Of many classes one is enough: the others know too little of this row to be bent by it."""
    X, weight = rng.normal(size=(20, 2)), np.append(np.ones(19), 1e6)
    rows, prior, belief = LinearRows(np.zeros(2), np.ones(2)), Ridge.isotropic(3), from_natural(np.eye(3), np.ones(3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    two = Problem(Table(X, y, weight, 20), rows, Quadrature(), prior)
    without = left_out_of((np.zeros(20), np.ones(20)), two, belief, np.ones(20))
    assert without.usable.tolist() == [True] * 19 + [False]
    mu = np.tile([0.0, -40.0, -40.0], (20, 1))
    table = Table(X, rng.integers(0, 3, 20).astype(float), weight, 20)
    three = Problem(table, ClasswiseRows(rows, 3), OneVersusRest(Quadrature()), Classwise.alike(prior, 3))
    each = left_out_of((mu, np.ones((20, 3))), three, ClassBelief((belief,) * 3), np.ones(20))
    assert each.usable.tolist() == [True] * 19 + [False]
    for found in (without, each):
        assert np.isfinite(found.mu).all()
        assert np.isfinite(found.v).all()


@pytest.mark.parametrize("temperature", [1.0, 4.0])
@pytest.mark.parametrize("name", ["moons", "iris"])
def test_an_estimator_leaves_rows_out_by_the_formula(name, temperature):
    X, y = make_moons(90, noise=0.3, random_state=0) if name == "moons" else load_iris(return_X_y=True)
    X = X[:, :2]
    model = Kept(**SETTINGS, n_particles=4, n_steps=5, temperature=temperature, random_state=0).fit(X, y)
    record = without_each(model.start, model.settled, temperature)
    mu, v = model.latent_mean_and_variance(model.start.data.X)
    problem = model.start.problem
    rows = beneath(problem.rows)
    phi = rows.with_kernel(model.kernel_).lift(problem.table.X).phi
    _, w, b = problem.likelihood.sites(record.y, mu, v)
    bend, weight = problem.likelihood.curvature(record.y, mu, v), problem.table.weight / temperature
    if name == "moons":
        mu, v, w, b, bend = (part[:, None] for part in (mu, v, w, b, bend))
    got = [part.reshape(mu.shape) for part in record[:2]]
    moved, alone = [], []
    for k in range(mu.shape[1]):
        precision = np.eye(rows.n_weights) + (phi.T * (weight * bend[:, k])) @ phi
        for i in range(0, len(mu), 17):
            n = model.start.data.unit[i] / temperature
            a = phi[i] @ np.linalg.inv(precision - n * bend[i, k] * np.outer(phi[i], phi[i])) @ phi[i]
            moved.append(got[0][i, k] - mu[i, k])
            alone.append(-n * a * (b - w * mu)[i, k])
            # Sums are in double precision, and features in that of the rows.
            assert got[1][i, k] == pytest.approx(v[i, k] + a - a / (1 + n * bend[i, k] * a), rel=1e-5)
    # Classes that the loss couples all go the same share of the way that each would go alone.
    share = 1.0 if name == "moons" else np.dot(moved, alone) / np.dot(alone, alone)
    assert 0.4 < share <= 1
    assert_allclose(moved, share * np.array(alone), rtol=1e-4, atol=1e-6)
    assert_allclose(np.hstack(model.link_), np.hstack(record.link()), rtol=1e-12)
    assert model.loo_log_loss_ == record.log_loss(model.link_)


def test_few_particles_that_went_far_have_a_link_of_their_own():
    """Four of them, over rows that hardly overlap: where nothing is unclear they spread much further than the belief
    that they set out from, under whose link they would be too timid."""
    X, y = make_moons(3000, noise=0.12, random_state=0)
    settings = SETTINGS | {"kernel": 400.0 * RBF(0.7) + Constant(1.0), "random_state": 0}
    model = Kept(**settings, n_particles=4, n_steps=2000, batch_size=8).fit(X[:1000], y[:1000])
    belief = BayesianKernelMachine(**settings | {"inference": "cavi"}).fit(X[:1000], y[:1000])
    (mu, v), labels = model.latent_mean_and_variance(X[1000:]), np.where(y[1000:] == 1, 1.0, -1.0)
    assert v.mean() > 3 * belief.latent_mean_and_variance(X[1000:])[1].mean()
    own, given = (log_losses(link.score(mu, v), labels).mean() for link in (model.link_, model.start.link))
    assert own < 0.6 * given
    # About twenty of two thousand rows are unclear, and make up nearly all of a log loss: a quarter either way.
    assert model.loo_log_loss_ == pytest.approx(own, rel=0.5)


@pytest.mark.filterwarnings("ignore:Time was up")
def test_a_fit_that_is_out_of_time_has_its_link_from_some_rows(monkeypatch):
    monkeypatch.setattr(particle_stream, "ROWS_IN_HASTE", 30)
    X, y = make_moons(90, noise=0.3, random_state=0)
    in_time = Kept(**SETTINGS, n_particles=4, n_steps=5, random_state=0).fit(X, y)
    late = Kept(**SETTINGS, n_particles=4, max_time=1e-9, random_state=0).fit(X, y)
    assert [len(without_each(model.start, model.settled, 1.0).y) for model in (in_time, late)] == [90, 30]
    assert (in_time.stop_reason_, late.stop_reason_) == ("steps", "time")
    assert np.isfinite(late.loo_log_loss_)


@pytest.mark.parametrize("name", ["moons", "iris"])
def test_in_haste_rows_are_left_out_in_single_precision(name, monkeypatch):
    """They say the same, even if columns lie far from zero: these are centred first."""
    X, y = make_moons(90, noise=0.3, random_state=0) if name == "moons" else load_iris(return_X_y=True)
    model = Kept(**SETTINGS, n_particles=4, n_steps=5, random_state=0).fit(X[:, :2] + 1e6, y)
    late = model.settled._replace(inferred=InferredAscent(model.settled.inferred.ascent._replace(reason="time")))
    dtypes = []

    def watched(moments, problem, *others):
        features = problem.features(0)
        dtypes.append(getattr(features, "base", features).phi.dtype)
        return left_out_of(moments, problem, *others)

    monkeypatch.setattr(particle_stream, "left_out_of", watched)
    exact, hasty = (without_each(model.start, settled, 1.0) for settled in (model.settled, late))
    assert dtypes == [np.float64, np.float32]
    assert_allclose(hasty.weight, exact.weight)
    # Features have seven digits, of which sums over 65 weights and rows that make up most of their spread lose three.
    assert_allclose(hasty.mu, exact.mu, rtol=1e-3, atol=1e-4)
    assert_allclose(hasty.v, exact.v, rtol=1e-3, atol=1e-4)


def test_the_belief_that_particles_start_from_needs_no_rows_left_out(monkeypatch):
    def refused(*arguments):
        raise AssertionError("left out for the belief, and again for the particles")

    X, y = make_moons(90, noise=0.3, random_state=0)
    monkeypatch.setattr(inference, "left_out", refused)
    model = BayesianKernelMachine(**SETTINGS, n_particles=4, n_steps=5, random_state=0).fit(X, y)
    assert np.isfinite(model.loo_log_loss_)
    with pytest.raises(AssertionError, match="left out"):
        BayesianKernelMachine(**SETTINGS | {"inference": "cavi"}).fit(X, y)
