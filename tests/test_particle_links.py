"""Rows that are left out of particles, and the link that this makes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.datasets import load_iris, make_moons

from softmargin import BayesianKernelMachine
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.estimators.particle_stream import without_each
from softmargin.gaussian import class_parts, from_natural
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import JaakkolaJordan, Quadrature
from softmargin.links import log_losses
from softmargin.loo import left_out
from softmargin.machine import tempered
from softmargin.priors import Ridge
from softmargin.rows import LinearRows, beneath

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


@pytest.mark.parametrize("likelihood", [Quadrature(), JaakkolaJordan()], ids=repr)
def test_moments_that_have_not_moved_leave_out_what_the_belief_does(likelihood, rng):
    X = rng.normal(size=(30, 2))
    rows = LinearRows(np.zeros(2), np.ones(2))
    problem = Problem(Table(X, np.sign(X[:, 0]), np.ones(30), 7), rows, likelihood, Ridge.isotropic(3))
    belief = from_natural(np.diag([3.0, 9.0, 5.0]), np.array([3.0, 0.5, 1.0]))
    latent, unit = problem.latent(belief), np.ones(30)
    same, wider = (left_out(problem, belief, unit, (latent.mu, v)) for v in (latent.v, latent.v + 2))
    for got, wanted in zip(same, left_out(problem, belief, unit), strict=True):
        assert_allclose(got, wanted, rtol=1e-12)
    # What is wider than the belief stays so: a row's absence widens both by about as much.
    assert np.all(wider.v > latent.v + 2)


def test_particles_at_a_mode_lose_a_row_as_the_mode_does(rng):
    """All at one place, far from where the belief is: one step of Newton leads near the mode without the row."""
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1.0, -1.0)
    rows = LinearRows(np.zeros(2), np.ones(2))
    phi = rows.lift(X).phi
    at, precision = mode(phi, y, np.ones(60))
    belief = from_natural(precision, precision @ (at - 1))
    problem = Problem(Table(X, y, np.ones(60), 60), rows, Quadrature(), Ridge.isotropic(3))
    without = left_out(problem, belief, np.ones(60), (phi @ at, np.zeros(60)))
    refits = np.array([phi[i] @ mode(phi, y, np.arange(60) != i)[0] for i in range(60)])
    moved = refits - phi @ at
    assert np.abs(moved).max() > 0.2
    # What one step leaves is of second order: of a row that moves by .4 a tenth of that.
    assert_allclose(without.mu - phi @ at, moved, atol=0.05, rtol=0.1)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
@pytest.mark.parametrize("name", ["moons", "iris"])
def test_an_estimator_leaves_rows_out_by_the_formula(name, temperature):
    X, y = make_moons(90, noise=0.3, random_state=0) if name == "moons" else load_iris(return_X_y=True)
    X = X[:, :2]
    model = Kept(**SETTINGS, n_particles=4, n_steps=5, temperature=temperature, random_state=0).fit(X, y)
    record = without_each(model.start, model.settled, temperature)
    mu, v = model.latent_mean_and_variance(model.start.data.X)
    problem, belief = model.start.problem, model.start.inferred.ascent.point.belief
    phi = beneath(problem.rows).lift(problem.table.X).phi
    _, w, b = problem.likelihood.sites(record.y, mu, v)
    bend = problem.likelihood.curvature(record.y, mu, v)
    spread = [np.sum(phi @ part.covariance * phi, axis=1) for part in class_parts(tempered(belief, temperature))]
    a = spread[0] if name == "moons" else np.stack(spread, axis=1)
    unit = model.start.data.unit if name == "moons" else model.start.data.unit[:, None]
    share = unit / temperature
    if problem.likelihood.site_is_curvature:
        assert_allclose(record.mu, mu - share * a * (b - w * mu) / (1 - share * bend * a), rtol=1e-4, atol=1e-4)
    assert_allclose(record.v, v - a + a / (1 - share * w * a), rtol=1e-4, atol=1e-4)
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
