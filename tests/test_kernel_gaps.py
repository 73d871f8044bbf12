"""Kernels and rows with missing entries: expected covariances, and the models that see them."""

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss
from sklearn.utils import get_tags

import references
import softmargin
from softmargin import BayesianGPC, BayesianSVC, chunks
from softmargin.arrays import NotPositiveDefiniteError
from softmargin.columns import describe
from softmargin.gaussian import from_natural
from softmargin.imputation import SCALE_BY_COLUMN, ColumnModel, GapModel, Sums
from softmargin.kernels import RBF, Constant, Linear, Matern, White
from softmargin.kernels.blurred import blurred, sharp
from softmargin.rows import InducingRows
from softmargin.tune import Evidence

KERNELS = [RBF(0.8), RBF((0.5, 2.0)), 3.0 * RBF((0.5, 2.0)) + Constant(0.4) + White(0.1), RBF(0.8) * 2.0]
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def not_quite_known(rng, n=5):
    """Rows of two columns as means and deviations: neither, either or both of them known."""
    deviations = rng.uniform(0.1, 1.0, size=(n, 2)) * np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]])
    return np.hstack([rng.normal(size=(n, 2)), deviations])


def expected(function, row):
    """The expectation over what a row of two columns might be, by a grid of nodes."""
    values = row[:2] + row[2:] * np.stack(np.meshgrid(NODES, NODES, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.outer(WEIGHTS, WEIGHTS).ravel() @ function(values)


def table(rng, n=60, missing=0.25):
    """Columns that tell much of each other, labels that bend, and gaps."""
    X = rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, 3))
    y = np.where(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n) > 0, 1, -1)
    gaps = rng.random(X.shape) < missing
    gaps[:4] = False
    return np.where(gaps, np.nan, 10 * X + 3), y


def gap_model_of(X):
    weight = np.ones(len(X))
    return GapModel.of(X, weight, describe(X, weight))


# Kernels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_blurred_kernel_is_an_expectation(kernel, rng):
    X, Z = not_quite_known(rng), rng.normal(size=(4, 2))
    wanted = np.stack([expected(lambda x: kernel(x, Z), row) for row in X])
    assert_allclose(blurred(kernel)(X, Z), wanted, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_blurred_kernel_of_rows_that_are_known_is_the_kernel(kernel, rng):
    X, Z = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    assert_array_equal(blurred(kernel)(X, Z), kernel(X, Z))
    assert_allclose(blurred(kernel)(np.hstack([X, 0 * X]), Z), kernel(X, Z), rtol=1e-12)
    assert sharp(blurred(kernel)) == kernel


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_pullbacks_of_a_blurred_kernel_are_finite_differences(kernel, rng):
    kernel, X, Z, dK = blurred(kernel), not_quite_known(rng), rng.normal(size=(4, 2)), rng.normal(size=(5, 4))
    in_theta = references.gradient(lambda theta: np.sum(dK * kernel.with_theta(theta)(X, Z)), kernel.theta, 1e-5)
    assert_allclose(kernel.pullback(X, Z, dK), in_theta, rtol=1e-6, atol=1e-8)
    in_points = references.gradient(lambda flat: np.sum(dK * kernel(X, flat.reshape(4, 2))), Z.ravel(), 1e-5)
    assert_allclose(kernel.pullback_inputs(Z, X, dK.T).ravel(), in_points, rtol=1e-6, atol=1e-8)
    assert_allclose(kernel.pullback(Z, Z, dK[:4]), sharp(kernel).pullback(Z, Z, dK[:4]), rtol=1e-12)
    assert_allclose(kernel.pullback_inputs(Z, Z, dK[:4]), sharp(kernel).pullback_inputs(Z, Z, dK[:4]), rtol=1e-12)


def test_blurred_kernel_agrees_in_torch_and_in_single_precision(rng):
    X, Z, kernel = not_quite_known(rng), rng.normal(size=(4, 2)), blurred(RBF((0.5, 2.0)))
    wanted = kernel(X, Z)
    assert_allclose(kernel(torch.from_numpy(X), torch.from_numpy(Z)).numpy(), wanted, rtol=1e-12)
    assert_allclose(kernel(X.astype(np.float32), Z.astype(np.float32)), wanted, atol=1e-5)
    far = kernel(np.array([[1e200, 0, 1e200, 1e200]]), Z)
    assert np.isfinite(far).all()
    assert_allclose(far, 0, atol=1e-29)


def test_no_expected_covariance_exceeds_the_variance(rng):
    """Far from the middle of the points, squares that are multiplied out leave less than nothing between them."""
    Z = 1e5 * rng.normal(size=(50, 2))
    X = np.hstack([Z, 0 * Z])
    assert blurred(RBF(1.0))(X, Z).max() == 1


class OwnRBF(RBF):
    """Somebody's own, of which nothing more is known."""


@pytest.mark.parametrize("kernel", [Matern(1.0), Linear(), RBF(1.0) * RBF(2.0), RBF(1.0) + Matern(1.0), OwnRBF(1.0)])
def test_other_kernels_have_no_expectation_in_closed_form(kernel):
    assert blurred(kernel) is None
    assert sharp(kernel) is kernel


# Columns -----------------------------------------------------------------------------------------


def test_gaps_are_predicted_by_the_other_columns_of_their_row(rng):
    X, _ = table(rng)
    found = gap_model_of(X)
    center, spread = found.columns
    Sigma = np.linalg.inv(found.precision)
    for row, seen in zip(X, found.blurred(X), strict=True):
        m, o = np.isnan(row), ~np.isnan(row)
        K = Sigma[np.ix_(m, o)] @ np.linalg.inv(Sigma[np.ix_(o, o)])
        away = (row[o] - center[o]) / spread[o] - found.mean[o]
        mean, V = found.mean[m] + K @ away, Sigma[np.ix_(m, m)] - K @ Sigma[np.ix_(o, m)]
        assert_array_equal(seen[:3][o], row[o])
        assert_array_equal(seen[3:][o], 0)
        # Entries are rounded to ten digits of their column's spread.
        assert_allclose(seen[:3][m], center[m] + spread[m] * mean, atol=1e-8)
        assert_allclose(seen[3:][m], spread[m] * np.sqrt(np.diag(V)), atol=1e-8)


def test_columns_and_gaps_agree_with_each_other(rng):
    """At rest, the columns' moments are those of rows whose gaps are predicted by them, row by row."""
    X, _ = table(rng, n=200)
    found = gap_model_of(X)
    center, spread = found.columns
    first, second = np.zeros(3), np.zeros((3, 3))
    for row in X:
        m, x = np.isnan(row), (row - center) / spread
        V = np.zeros((3, 3))
        V[np.ix_(m, m)] = np.linalg.inv(found.precision[np.ix_(m, m)])
        x[m] = found.mean[m] - V[np.ix_(m, m)] @ found.precision[np.ix_(m, ~m)] @ (x - found.mean)[~m]
        first, second = first + x, second + np.outer(x, x) + V
    model = ColumnModel.standard(3)._replace(scale=SCALE_BY_COLUMN * 4)
    wanted = model.updated(Sums(first, second, 200.0))
    # Turns end where the moments move by less than 1e-4.
    assert_allclose(found.mean, wanted.mean, atol=1e-3)
    assert_allclose(np.linalg.inv(found.precision), np.linalg.inv(wanted.precision), atol=1e-3)


def test_complete_columns_need_no_turns_and_copies_are_weights(rng):
    X = 10 * rng.normal(size=(50, 3)) @ rng.normal(size=(3, 3))
    found = gap_model_of(X)
    values = (X - found.columns.center) / found.columns.spread
    model = ColumnModel.standard(3)._replace(scale=SCALE_BY_COLUMN * 4)
    wanted = model.updated(Sums(values.sum(axis=0), values.T @ values, 50.0))
    assert_allclose(found.precision, wanted.precision, rtol=1e-6)
    X, _ = table(rng)
    weight = np.where(np.arange(60) < 20, 3.0, 1.0)
    columns = describe(X, weight)
    one = GapModel.of(X, weight, columns)
    other = GapModel.of(np.concatenate([X, X[:20], X[:20]]), np.ones(100), columns)
    assert_array_equal(one.blurred(X), other.blurred(X))


# Rows --------------------------------------------------------------------------------------------


def test_features_keep_the_moments_of_the_prior(rng):
    """Function and gaps unknown, ``Cov(f, u)`` is the mean of ``phi``, and the variance of ``f`` that of the kernel."""
    X, _ = table(rng)
    X = X[:, :2]
    plain = InducingRows.at(3.0 * RBF((8.0, 12.0)) + Constant(0.5), X[:4])
    gappy = plain._replace(gap_model=gap_model_of(X))
    seen = gappy.gap_model.blurred(X)
    features = gappy.lift(X)
    for index in range(4, 16):
        phi = expected(lambda x: plain.lift(x).phi, seen[index])
        assert_allclose(features.phi[index], phi, atol=1e-7)
        assert_allclose(features.leftover[index], 3.5 - phi @ phi, atol=1e-6)
    assert_allclose(gappy.lift(X[:4]).phi, plain.lift(X[:4]).phi, rtol=0, atol=0)


@pytest.mark.parametrize("scale", [0.01, 3.0])  # draws may be wider than the prior, which kernel views do not take
def test_views_are_features_under_a_belief(scale, rng):
    X, _ = table(rng)
    rows = InducingRows.at(2.0 * RBF((9.0, 14.0, 11.0)), X[:4])._replace(gap_model=gap_model_of(X))
    belief = from_natural(np.eye(4) / scale, rng.normal(size=4))
    latent = rows.lift(X).moments(belief)
    mu, v = rows.view(belief, X[:0]).moments(X)
    assert_allclose(mu, latent.mu, rtol=1e-9)
    assert_allclose(v, latent.v, rtol=1e-7)


def test_rows_with_gaps_are_left_over_each_by_itself(rng):
    """What the points leave over: together where rows are whole, and nothing in common with what is missing."""
    X, _ = table(rng, n=12)
    rows = InducingRows.at(2.0 * RBF((9.0, 14.0, 11.0)), X[:2])._replace(gap_model=gap_model_of(X))
    X[5:, 1] = np.nan
    gappy = np.isnan(X).any(axis=1)
    assert 2 < gappy.sum() < 10
    for some in (X, X[gappy], X[~gappy]):
        root, whole = rows.leftover_root(some), ~np.isnan(some).any(axis=1)
        phi, own = rows.lift(some)
        together = np.outer(whole, whole)
        wanted = np.where(together, rows.kernel(np.nan_to_num(some), np.nan_to_num(some)) - phi @ phi.T, np.diag(own))
        assert_allclose(root @ root.T, wanted, atol=1e-7)


def test_slopes_of_the_judge_are_finite_differences(rng):
    X, y = table(rng)
    X, kernel = gap_model_of(X).blurred(X), blurred(2.0 * RBF((9.0, 14.0, 11.0)) + Constant(1.0))
    judge = Evidence(X, y.astype(float), np.ones(60), X[:15, :3], n_updates=2000)
    judge._tolerance = 1e-12  # at rest, so that the belief has no slope
    slopes = judge.at(kernel).slopes
    wanted = references.gradient(lambda theta: judge.at(kernel.with_theta(theta)).value, kernel.theta, 1e-4)
    assert_allclose(slopes, wanted, rtol=1e-3, atol=1e-4)
    _, in_points = judge.through(kernel, X[:15, :3])
    moved = references.gradient(lambda z: judge.through(kernel, z.reshape(15, 3))[0], X[:15, :3].ravel(), 1e-3)
    assert_allclose(in_points.ravel(), moved, rtol=1e-3, atol=1e-4)


# Models ------------------------------------------------------------------------------------------

MODELS = [
    BayesianSVC(),
    BayesianGPC(),
    BayesianSVC(tune="loo"),
    BayesianSVC(tune=None, inference="batch"),
    BayesianSVC(inducing="tuned", n_inducing=8),
    BayesianSVC(kernel=RBF(None) + 0.5, n_inducing=10, inference="svi"),
    BayesianSVC(tune=None, inference="gibbs", n_draws=30, n_chains=2),
    BayesianGPC(loss="jj", tune="alternate"),
]


@pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_models_take_gaps_in_fit_and_in_prediction(model, rng):
    X, y = table(rng, n=200)
    model = model.set_params(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert np.isfinite(model.inducing_points_).all()
    assert model.inducing_points_.shape[1] == 3
    assert "Blurred" not in type(model.kernel_).__name__ + repr(model.tune_history_)


def test_complete_tables_are_what_they_were(rng):
    X, y = table(rng, missing=0)
    model = BayesianSVC(random_state=0).fit(X, y)
    forgetful = model.rows_._replace(gap_model=None)
    assert_array_equal(forgetful.lift(X).phi, model.rows_.lift(X).phi)
    # And rows to come may lack entries all the same, the more the less they say.
    row = np.array([[18.0, 18.0, 18.0], [18.0, np.nan, 18.0], [np.nan, np.nan, 18.0], [np.nan] * 3])
    _, v = model.latent_mean_and_variance(row)
    assert np.all(np.diff(v) > 0)


def test_averaging_beats_filling_where_columns_tell_of_each_other():
    losses = []
    for seed in range(4):
        X, y = table(np.random.default_rng(seed), n=600, missing=0.4)
        half, other = slice(0, 300), slice(300, 600)
        filled = np.where(np.isnan(X), np.nanmedian(X[half], axis=0), X)
        models = (BayesianGPC(random_state=0).fit(rows[half], y[half]) for rows in (X, filled))
        losses.append([
            log_loss(y[other], model.predict_proba(rows[other])[:, 1])
            for model, rows in zip(models, (X, filled), strict=True)
        ])  # fmt: skip
    # .023, .006, .027 and .016: every one of the four, and more than three standard errors on average.
    gained = np.diff(losses, axis=1)
    assert np.all(gained > 0), losses
    assert gained.mean() > 0.01


def test_many_classes_sources_files_and_batches_take_gaps(rng, tmp_path):
    X, _ = table(rng, n=300)
    y = np.digitize(np.nan_to_num(X[:, 0], nan=3.0), [-2, 8])
    many = BayesianSVC(random_state=0).fit(X, y)
    assert many.score(X, y) > 0.8
    whole = BayesianSVC(random_state=0).fit(X, y == 1)
    read = BayesianSVC(random_state=0).fit(
        chunks.Batches(lambda: iter([(X[:150], y[:150] == 1), (X[150:], y[150:] == 1)]))
    )
    assert_allclose(read.predict_proba(X), whole.predict_proba(X), atol=1e-6)
    for model in (many, whole):
        model.save(tmp_path / "model.sm")
        assert_array_equal(softmargin.load(tmp_path / "model.sm").predict_proba(X), model.predict_proba(X))
    stream = BayesianSVC(random_state=0)
    for rows in (slice(0, 150), slice(150, 300)):
        stream.partial_fit(X[rows], y[rows] == 1, classes=[False, True])
    assert stream.score(X, y == 1) > 0.75


def test_weights_are_copies(rng):
    X, y = table(rng)
    weight = np.where(np.arange(60) < 20, 2.0, 1.0)
    one = BayesianSVC(random_state=0).fit(X, y, weight)
    other = BayesianSVC(random_state=0).fit(np.concatenate([X, X[:20]]), np.concatenate([y, y[:20]]))
    assert one.kernel_ == other.kernel_
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_draws_have_the_latent_moments(rng):
    X, y = table(rng)
    model = BayesianSVC(random_state=0).fit(X, y)
    rows = X[[0, 1, *np.flatnonzero(np.isnan(X).any(axis=1))[:4]]]
    mu, v = model.latent_mean_and_variance(rows)
    draws = model.sample_latent(rows, 4000, random_state=0)
    assert_allclose(draws.mean(axis=1), mu, atol=5 * np.sqrt(v.max() / 4000))  # five standard errors
    assert_allclose(draws.var(axis=1), v, rtol=5 * np.sqrt(2 / 4000))
    assert model.sample_latent(rows[2:], 3, random_state=0).shape == (4, 3)


def test_single_precision(rng):
    X, y = table(rng, n=200)
    double, single = (BayesianSVC(random_state=0).fit(X.astype(kind), y) for kind in (np.float64, np.float32))
    assert_allclose(single.predict_proba(X.astype(np.float32)), double.predict_proba(X), atol=0.02)


# What is refused ---------------------------------------------------------------------------------


def test_kernels_without_an_expectation_refuse_gaps(rng):
    X, y = table(rng)
    assert get_tags(BayesianSVC()).input_tags.allow_nan
    for kernel in ("matern", RBF(1.0) * RBF(2.0), "unknown", object()):
        assert not get_tags(BayesianSVC(kernel=kernel)).input_tags.allow_nan
    with pytest.raises(ValueError, match="accepts missing values only with a kernel"):
        BayesianSVC(kernel="matern").fit(X, y)


def test_gaps_that_nothing_predicts_are_refused(rng):
    X, y = table(rng)
    with pytest.raises(ValueError, match="column 1 has no observed value"):
        BayesianSVC().fit(np.where([False, True, False], np.nan, X), y)
    wide = np.hstack([X, rng.normal(size=(60, 500))])
    with pytest.raises(ValueError, match="503 columns, too many"):
        BayesianSVC().fit(wide, y)
    with pytest.raises(ValueError, match="device='cpu' does not support"):
        BayesianSVC(device="cpu").fit(X, y)
    model = BayesianSVC(tune=None).fit(scipy.sparse.csr_matrix(np.nan_to_num(X)), y)
    for answer in (model.predict, lambda rows: model.partial_fit(rows, y)):
        with pytest.raises(ValueError, match="were not learned: in fit, the covariance"):
            answer(X)
    model = BayesianSVC(device="cpu", random_state=0).fit(np.nan_to_num(X), y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_columns_that_rounding_does_not_tell_apart_matter_only_to_gaps(rng, monkeypatch):
    def lost(*_):
        raise NotPositiveDefiniteError("nothing but rounding")

    X, y = table(rng)
    monkeypatch.setattr(GapModel, "of", lost)
    model = BayesianSVC(tune=None).fit(np.nan_to_num(X), y)
    with pytest.raises(ValueError, match="singular up to rounding"):
        model.predict(X)
    with pytest.raises(ValueError, match="differ by so many orders of magnitude"):
        BayesianSVC(tune=None).fit(X, y)
