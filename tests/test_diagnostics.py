import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softmargin import diagnostics
from softmargin.diagnostics import MixingWarning, ess, ess_bulk, ess_tail, r_hat, summary, to_arviz, warn_unless_mixed


@pytest.fixture(scope="module")
def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("arviz")


def autoregressive(rho, shape, rng):
    """Chains whose neighbours have the correlation ``rho``, and whose numbers are standard normal."""
    noise = rng.normal(size=shape)
    chains = np.empty(shape)
    chains[:, 0] = noise[:, 0]
    for k in range(1, shape[1]):
        chains[:, k] = rho * chains[:, k - 1] + np.sqrt(1 - rho**2) * noise[:, k]
    return chains


def asked(function, draws, **settings):
    with np.errstate(all="ignore"):
        return float(function(draws, **settings))


@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.5, 0.95, 0.999])
@pytest.mark.parametrize(("n_chains", "n_draws"), [(4, 500), (2, 7), (3, 4), (4, 5), (3, 9), (1, 102), (5, 333)])
def test_equal_to_arviz(arviz, rho, n_chains, n_draws, rng):
    chains = autoregressive(rho, (n_chains, n_draws, 5), rng)
    chains[..., 1] = np.exp(5 * chains[..., 1])  # heavy tails
    chains[..., 2] = np.round(chains[..., 2])  # ties
    chains[..., 3] += np.arange(n_chains)[:, None]  # apart
    chains[..., 4] *= np.arange(1, n_chains + 1)[:, None]  # of different widths
    columns = [chains[..., k] for k in range(5)]
    for method, function in (("bulk", ess_bulk), ("tail", ess_tail)):
        there = [asked(arviz.ess, column, method=method) for column in columns]
        assert_allclose(function(chains), there, rtol=1e-8)
    assert_allclose(ess(chains), [diagnostics.ess(column) for column in columns], rtol=1e-8)
    if n_chains > 1:
        here, there = r_hat(chains), np.array([asked(arviz.rhat, column) for column in columns])
        moved = np.isfinite(there)
        assert moved.sum() >= 3
        assert_allclose(here[moved], there[moved], rtol=1e-8)


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.6, 0.95])
def test_worth_of_a_process_that_is_known(rho, rng):
    chains = autoregressive(rho, (4, 5000, 6), rng)
    # An AR(1) chain is worth (1 - rho)/(1 + rho) of its length for a mean; at rho = .95 that leaves 500 draws to tell
    # it by, and where the sum of correlations ends is noisy.
    for worth in (ess(chains), ess_bulk(chains)):
        assert_allclose(worth, 20_000 * (1 - rho) / (1 + rho), rtol=0.5)
        assert_allclose(np.median(worth), 20_000 * (1 - rho) / (1 + rho), rtol=0.15)
    assert np.all(r_hat(chains) < 1.02)
    assert r_hat(chains).shape == ess_tail(chains).shape == (6,)


def test_chains_apart_in_place_or_in_width_are_told(rng):
    chains = rng.normal(size=(4, 300, 3))
    chains[0, :, 0] += 2
    chains[0, :, 1] *= 5
    chains[:, :150, 2] += 2  # a drift within each chain
    assert np.all(r_hat(chains) > 1.1)
    assert np.all(ess_bulk(chains)[[0, 2]] < 50)
    assert r_hat(rng.normal(size=(4, 300))) < 1.02


def test_numbers_that_do_not_move_are_safe(rng):
    chains = rng.normal(size=(4, 50, 4))
    chains[..., 1] = 3.3
    chains[..., 2] = np.arange(4)[:, None] / 3
    chains[1, 7, 3] = np.nan
    here = r_hat(chains)
    assert np.isfinite(here[0])
    assert here[1] == 1
    assert here[2] == np.inf
    assert np.isnan(here[3])
    for function in (ess_bulk, ess_tail):
        worth = function(chains)
        assert worth[1] == 200
        assert 0 < worth[2] < 20
        assert np.isnan(worth[3])
    assert np.isnan([r_hat(chains[:, :3, 0]), ess_bulk(chains[:, :3, 0]), ess_tail(chains[:, :3, 0])]).all()
    assert r_hat(np.ones((2, 10, 3, 4))).shape == (3, 4)
    assert r_hat(np.ones((2, 10, 0))).shape == (0,)


def test_trailing_axes_are_judged_one_by_one(rng):
    chains = autoregressive(0.7, (3, 100, 6), rng)
    for function in (r_hat, ess_bulk, ess_tail, ess):
        assert_allclose(function(chains.reshape(3, 100, 2, 3)), function(chains).reshape(2, 3), rtol=1e-12)
        assert_allclose(function(chains[..., 0]), function(chains)[0], rtol=1e-12)
    found = summary(chains)
    assert_allclose(found["mean"], chains.mean(axis=(0, 1)))
    assert_allclose(found["r_hat"], r_hat(chains))


def test_a_warning_only_where_chains_disagree(recwarn):
    warn_unless_mixed(1.049, 400.0)
    warn_unless_mixed(np.nan, np.nan)
    assert not recwarn
    with pytest.warns(MixingWarning, match=r"R-hat is 1\.300, above 1\.05, .* sample size is 12\.") as caught:
        warn_unless_mixed(1.3, 12.0, stacklevel=1)
    assert caught[0].filename == __file__


# ArviZ -----------------------------------------------------------------------------------------------


def test_draws_go_to_arviz(arviz, rng):
    draws, sigma = rng.normal(size=(4, 50, 3)), rng.gamma(1.0, size=(4, 50))
    tree = to_arviz(
        {"coef": draws, "sigma": sigma},
        coords={"column": ["a", "b", "c"]},
        dims={"coef": ["column"]},
        sample_stats={"lp": sigma},
    )
    assert_array_equal(tree.posterior["coef"].values, draws)
    assert tree.posterior["coef"].dims == ("chain", "draw", "column")
    assert list(tree.posterior["coef"].coords["column"].values) == ["a", "b", "c"]
    assert_array_equal(tree.sample_stats["lp"].values, sigma)


def test_either_version_of_arviz_is_asked_in_its_own_way(monkeypatch, rng):
    asked = []

    def from_dict(*args, **settings):
        asked.append((args, settings))

    draws = rng.normal(size=(2, 5))
    for version in ("0.23.4", "1.0.0"):
        monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(__version__=version, from_dict=from_dict))
        to_arviz({"u": draws}, dims={"u": []}, sample_stats={"lp": draws})
    (old, old_settings), (new, new_settings) = asked
    assert old == ()
    assert set(old_settings) == {"posterior", "sample_stats", "coords", "dims"}
    assert set(new_settings) == {"coords", "dims"}
    assert list(new[0]) == ["posterior", "sample_stats"]
    assert_array_equal(new[0]["posterior"]["u"], draws)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r'pip install "softmargin\[arviz\]"'):
        to_arviz({"u": np.zeros((2, 5))})
