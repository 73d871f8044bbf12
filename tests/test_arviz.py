"""Draws on their way to ArviZ, by name and in the user's units."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC

pytest.importorskip("arviz")
pytestmark = pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")
CHAINS = {"inference": "gibbs", "n_draws": 60, "n_chains": 2, "random_state": 0}


@pytest.fixture
def frame(rng):
    group = rng.integers(5, size=120)
    frame = pd.DataFrame({"age": 40 + 10 * rng.normal(size=120), "dose": rng.normal(size=120), "site": group})
    frame["ill"] = 0.1 * (frame["age"] - 40) + 0.5 * group + rng.logistic(size=120) > 1
    return frame


def test_coefficients_are_those_of_the_model(frame):
    model = BayesianLinearSVC(**CHAINS).fit(frame[["age", "dose"]], frame["ill"])
    posterior = model.to_arviz().posterior
    assert posterior["coef"].shape == (2, 60, 2)
    assert posterior["coef"].coords["column"].values.tolist() == ["age", "dose"]
    latent = frame[["age", "dose"]].to_numpy() @ posterior["coef"].values.reshape(-1, 2).T
    latent = latent + posterior["intercept"].values.ravel()
    assert_allclose(latent.T, model.draws_.seen_weights @ model.rows_.lift(frame[["age", "dose"]].to_numpy()).phi.T)
    assert (posterior["prior_variance"].values > 0).all()


def test_columns_that_are_out_have_no_coefficient(frame):
    model = BayesianLinearSVC(prior="laplace-zero", rho=0.2, **CHAINS).fit(frame[["age", "dose"]], frame["ill"])
    posterior = model.to_arviz().posterior
    included, coef = posterior["included"].values, posterior["coef"].values
    assert set(np.unique(included)) <= {0.0, 1.0}
    assert_allclose(coef[included == 0], 0, atol=1e-300)
    assert_allclose(included.mean(axis=(0, 1)), model.inclusion_probability_)


def test_groups_have_their_names(frame):
    model = BayesianMixedSVC("ill ~ age + (1 + dose | site)", **CHAINS).fit(frame)
    posterior = model.to_arviz().posterior
    assert posterior["site"].dims == ("chain", "draw", "site_group", "site_effect")
    assert posterior["site"].coords["site_effect"].values.tolist() == ["Intercept", "dose"]
    effects = model.random_effects()
    means = posterior["site"].mean(dim=("chain", "draw")).values.ravel()
    # The frame has averages of conditional means, which scatter less than those of 120 draws.
    assert_allclose(means, effects["mean"], atol=5 * effects["sd"].max() / np.sqrt(20))
    assert posterior["coef"].coords["column"].values.tolist() == ["age"]


def test_kernel_machines_have_weights(frame):
    model = BayesianSVC(tune=None, n_inducing=6, **CHAINS).fit(frame[["age", "dose"]], frame["ill"])
    assert model.to_arviz().posterior["weight"].shape == (2, 60, 6)


def test_without_draws_there_is_nothing_to_export(frame):
    with pytest.raises(ValueError, match="fit with inference='gibbs'"):
        BayesianLinearSVC().fit(frame[["age"]], frame["ill"]).to_arviz()
