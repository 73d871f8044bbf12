import numpy as np
import pytest
from numpy.testing import assert_allclose

import contracts
import references
from softmargin import BayesianLinearSVC, BayesianSVC
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.estimators.base import Data
from softmargin.gaussian import from_natural
from softmargin.kernels import RBF
from softmargin.likelihoods import LOSSES, AugmentedHinge, Hinge, JaakkolaJordan, Quadrature, Sites
from softmargin.loo import Predicted, Response, divided_out, left_out
from softmargin.monitor import Monitor
from softmargin.priors import Ridge, VarianceComponents
from softmargin.rows import InducingRows, Latent, LinearRows
from softmargin.steps import Ascender


@pytest.mark.parametrize("likelihood", [Hinge(), Quadrature()], ids=repr)
def test_dividing_a_site_out_equals_a_belief_without_it(likelihood, rng):
    X = rng.normal(size=(25, 2))
    y, weight = np.sign(X[:, 0]), rng.choice([0.0, 0.4, 1.0, 3.0], size=25)
    features = InducingRows.at(RBF(0.8), X[:8]).lift(X)
    latent = features.moments(contracts.random_belief(8))
    sites = likelihood.sites(y, latent.mu, latent.v)
    G, h = features.gather(weight * sites.w, weight * sites.b)
    fitted = features.moments(from_natural(G + np.eye(8), h))
    mu, v = references.left_out_by_refitting(features.phi, features.leftover, np.eye(8), sites.w, sites.b, weight)
    without = divided_out(fitted, sites, Response(fitted.spread, sites.w), np.minimum(weight, 1))
    assert_allclose(without.mu, mu, rtol=1e-8, atol=1e-9)
    assert_allclose(without.v, v, rtol=1e-8)
    assert without.usable.all()
    assert not np.allclose(without.mu[weight > 0], fitted.mu[weight > 0])


@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge(), JaakkolaJordan(), Quadrature()], ids=repr)
@pytest.mark.parametrize("inferred", [False, True])
def test_leaving_out_is_a_newton_step_without_the_row(likelihood, inferred, rng):
    X = rng.normal(size=(30, 2))
    y, weight = np.where(X[:, 0] + rng.normal(size=30) > 0, 1.0, -1.0), rng.choice([0.5, 1.0, 2.0], size=30)
    rows = LinearRows(np.zeros(2), np.ones(2))
    prior = VarianceComponents(np.array([0, 0, -1]), 0.5, 0.5, 0.1) if inferred else Ridge(np.array([1.0, 2.0, 0.5]))
    problem = Problem(Table(X, y, weight, 7), rows, likelihood, prior)
    belief = Ascender(problem.stats, prior, likelihood, X, tol=1e-13, max_passes=1000).run().point.belief
    unit = np.minimum(weight, 1)
    without = left_out(problem, belief, unit)

    phi, latent = rows.lift(X).phi, problem.latent(belief)
    _, w, b = likelihood.sites(y, latent.mu, latent.v)
    slope, bend = b - w * latent.mu, likelihood.curvature(y, latent.mu, latent.v)
    # P, from the belief and the rows' part of it: at the optimum the precision is P + sum w phi phi'.
    P = np.linalg.inv(belief.covariance) - (phi.T * (weight * w)) @ phi
    for i in range(len(y)):
        kept = weight - np.where(np.arange(len(y)) == i, unit, 0)
        hessian = P + (phi.T * (kept * bend)) @ phi
        gradient = phi.T @ (kept * slope) - P @ belief.mean
        assert_allclose(without.mu[i], phi[i] @ (belief.mean + np.linalg.solve(hessian, gradient)), atol=1e-5)


def test_rows_that_own_all_of_their_spread_are_told_apart():
    latent = Latent(np.full(4, 0.5), np.ones(4), np.full(4, 0.1))
    w, unit = np.array([0.5, 1.0, 1.5, 1.5]), np.array([1.0, 1.0, 1.0, 0.1])
    without = divided_out(latent, Sites(np.zeros(4), w, np.ones(4)), Response(latent.spread, w), unit)
    assert without.usable.tolist() == [True, False, False, True]
    assert np.isfinite(without.mu).all()
    assert np.all(without.v > 0)
    assert_allclose([without.mu[0], without.v[0]], [(0.5 - 1) / 0.5, 0.1 + 1 / 0.5])
    # A row of weight .1 is in the belief with a tenth of its site, and takes that with it.
    assert_allclose([without.mu[3], without.v[3]], [(0.5 - 0.1) / 0.85, 0.1 + 1 / 0.85])


def test_rows_judged_otherwise_than_they_entered_equal_a_belief_without_them(rng):
    # Rows with gaps enter the sums as their labels filled them, and are judged as the other columns predict them.
    n, m = 12, 3
    entered, judged = rng.normal(size=(2, n, m))
    entered[0] = 0  # such a row says nothing, so its absence changes nothing
    w, b, unit = rng.uniform(0.2, 1.0, n), rng.normal(size=n), rng.uniform(0.3, 1.0, n)
    belief = from_natural(np.eye(m) + (entered.T * w) @ entered, entered.T @ b)
    S, rest = belief.covariance, rng.uniform(0.1, 0.5, n)
    latent = Latent(entered @ belief.mean, np.einsum("ij,jk,ik->i", entered, S, entered), np.zeros(n))
    before = Latent(judged @ belief.mean, np.einsum("ij,jk,ik->i", judged, S, judged), rest)
    shared = np.einsum("ij,jk,ik->i", judged, S, entered)
    without = divided_out(latent, Sites(np.zeros(n), w, b), Response(latent.spread, w), unit, Predicted(before, shared))
    for i in range(n):
        kept = 1 - unit * (np.arange(n) == i)
        refitted = from_natural(np.eye(m) + (entered.T * (kept * w)) @ entered, entered.T @ (kept * b))
        assert_allclose(without.mu[i], judged[i] @ refitted.mean, rtol=1e-9, atol=1e-12)
        assert_allclose(without.v[i], rest[i] + judged[i] @ refitted.covariance @ judged[i], rtol=1e-9)


def test_a_row_is_usable_only_if_all_of_its_classes_are():
    latent = Latent(np.zeros((3, 2)), np.ones((3, 2)), np.zeros((3, 2)))
    w = np.array([[0.5, 0.5], [0.5, 1.5], [1.5, 1.5]])
    without = divided_out(latent, Sites(np.zeros(3), w, np.ones((3, 2))), Response(latent.spread, w), np.ones(3))
    assert without.usable.tolist() == [True, False, False]


@pytest.mark.parametrize("loss", ["hinge", "hinge-augmented", "logistic", "logistic-jj", "probit"])
@pytest.mark.parametrize("classifier", [BayesianSVC, BayesianLinearSVC])
def test_left_out_means_are_near_those_of_true_refits(classifier, loss, rng):
    X = rng.normal(size=(80, 2))
    y = np.where(X[:, 0] * (1 + X[:, 1]) + 0.5 * rng.normal(size=80) > 0, 1.0, -1.0)
    settings = {"loss": loss, "link": "logistic", "tol": 1e-9, "max_iter": 1000}
    settings |= {"kernel": 1.0 * RBF(1.0), "tune": None} if classifier is BayesianSVC else {"prior": 1.0}
    model = classifier(**settings).fit(X, y)
    data = Data(X, y, np.ones(80), np.ones(80), model.classes_, np.ones(80))
    prior = model._parts(data, np.random.RandomState(0), Monitor()).prior
    problem = Problem(Table(X, y, np.ones(80), 32), model.rows_, LOSSES[loss], prior)
    without = left_out(problem, model.belief_, np.ones(80))
    chosen = rng.choice(80, size=12, replace=False)
    refits = [classifier(**settings).fit(np.delete(X, i, 0), np.delete(y, i)) for i in chosen]
    truth = np.array([fit.latent_mean_and_variance(X[[i]])[0][0] for fit, i in zip(refits, chosen, strict=True)])
    error, change = without.mu[chosen] - truth, model.latent_mean_and_variance(X[chosen])[0] - truth
    # Other rows answer to the absence as well, to second order: most of the change must still be predicted.
    assert np.sqrt(np.mean(error**2)) < 0.25 * np.sqrt(np.mean(change**2))
