"""Kernels beside fixed and random effects."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import references_kernel_groups as naive
import softmargin
from softmargin import BayesianMixedSVC, BayesianSVC
from softmargin.chunks import Batches, Table
from softmargin.engine import Problem
from softmargin.estimators.posterior import named_draws
from softmargin.kernels import RBF, Constant, Linear
from softmargin.likelihoods import Gaussian
from softmargin.loo import left_out
from softmargin.priors import Part, Ridge, Standard, Structured, Variances
from softmargin.rows import CurvedRows, Factor, GroupedRows, InducingRows, LinearRows
from softmargin.steps import ascend

KERNEL = 2.0 * RBF((0.8, 2.0)) + Constant(0.5)
N, J, NOISE, VARIANCE, LINES = 60, 7, 0.3, 1.7, 0.8


@pytest.fixture(scope="module")
def table():
    """Forty clinics; age acts by a wave, and dose by a line."""
    rng = np.random.default_rng(0)
    n, clinic = 600, rng.integers(40, size=600)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, n), "dose": rng.normal(size=n), "clinic": clinic})
    f = 2 * np.sin(frame["age"] / 8) + frame["dose"] + 1.2 * rng.normal(size=40)[clinic]
    return frame, np.where(f + rng.logistic(size=n) > 0, "well", "ill")


@pytest.fixture(scope="module")
def fitted(table):
    return BayesianMixedSVC(groups="clinic", kernel="rbf", loss="logistic", random_state=0).fit(*table)


def moments(model, X):
    return np.array(model.latent_mean_and_variance(X))


# Against matrices of all pairs of rows -----------------------------------------------------------


def gaussian_problem(rng, n_points, variance=VARIANCE, kernel=KERNEL):
    """Rows in groups of known variance beside lines of known variance, with real labels and Gaussian noise."""
    X = np.column_stack([rng.normal(size=(N, 2)), rng.integers(J, size=N)])
    y = np.sin(2 * X[:, 0]) + rng.normal(size=J)[X[:, 2].astype(int)] + NOISE**0.5 * rng.normal(size=N)
    fixed = CurvedRows(LinearRows(np.zeros(2), np.ones(2)), InducingRows.at(kernel, X[:n_points, :2]))
    rows = GroupedRows(fixed, 2, (Factor((), True, 2),), (J,), population=(np.array([[variance]]),))
    # Of shape 1e9, an inverse gamma is as good as a number.
    known, curves = Variances(1, 1e9, 1e9 * variance), Part(3, n_points, Standard())
    prior = Structured(Ridge.isotropic(3, LINES), (curves,), (known,), rows.layout)
    problem: Any = Problem(Table(X, y, np.ones(N), 32), rows, Gaussian(NOISE), prior)  # pyright: ignore
    return problem, ascend(problem, tol=1e-12, max_passes=100).point


def prior_covariance(problem: Any, A, B):
    """What the weights of lines, points and groups explain together, at two sets of rows."""
    lines = LINES * (A[:, :2] @ B[:, :2].T + 1)
    groups = VARIANCE * naive.intercepts(A[:, 2], J) @ naive.intercepts(B[:, 2], J).T
    return lines + groups + naive.through_points(KERNEL, problem.rows.fixed.curves.points, A[:, :2], B[:, :2])


@pytest.mark.parametrize("n_points", [N, 25], ids=["a point at every row", "few points"])
def test_moments_are_those_of_all_pairs_of_rows(n_points, rng):
    problem, point = gaussian_problem(rng, n_points)
    X, y = problem.table.X, problem.table.y
    new = np.column_stack([rng.normal(size=(20, 2)), np.arange(20) % (J + 1) - 1])  # -1 is a group that nobody knows
    latent = problem.rows.lift(new).moments(point.belief)
    own, prior = prior_covariance(problem, new, new), (prior_covariance(problem, X, rows) for rows in (new, X))
    across, among = prior
    mean, covariance = naive.posterior((across.T, among), own, y, NOISE)
    x, points = new[:, :2], problem.rows.fixed.curves.points
    left_over = np.diagonal(KERNEL(x, x) - naive.through_points(KERNEL, points, x, x))
    # Points at all rows are nearly singular together, and factored with jitter.
    assert_allclose(latent.mu, mean, atol=1e-4)
    assert_allclose(latent.v, np.diagonal(covariance) + left_over + VARIANCE * (new[:, 2] < 0), atol=1e-4)


@pytest.mark.parametrize("n_points", [N, 25])
def test_the_bound_is_the_evidence_less_what_points_leave_over(n_points, rng):
    problem, point = gaussian_problem(rng, n_points)
    X, y = problem.table.X, problem.table.y
    evidence = naive.log_evidence(prior_covariance(problem, X, X), y, NOISE)
    left_over = problem.rows.lift(X).leftover.sum() / (2 * NOISE)
    assert_allclose(point.objective, evidence - left_over, atol=1e-3)


def test_rows_are_left_out_as_if_they_were_not_there(rng):
    problem, point = gaussian_problem(rng, 25)
    X, y = problem.table.X, problem.table.y
    without = left_out(problem, point.belief, np.ones(N))
    leftover = problem.rows.lift(X).leftover
    for i in range(0, N, 7):
        others, own = np.delete(np.arange(N), i), X[[i]]
        prior = prior_covariance(problem, own, X[others]), prior_covariance(problem, X[others], X[others])
        mean, covariance = naive.posterior(prior, prior_covariance(problem, own, own), y[others], NOISE)
        assert_allclose(without.mu[i], mean[0], atol=1e-5)
        assert_allclose(without.v[i], covariance[0, 0] + leftover[i], atol=1e-5)


def test_groups_that_do_not_differ_are_none(rng):
    problem, point = gaussian_problem(rng, 25, variance=1e-10)
    fixed, X = problem.rows.fixed, problem.table.X
    prior = Ridge(np.append(np.full(3, 1 / LINES), np.ones(25)))
    alone = Problem(problem.table._replace(X=X[:, :2]), fixed, Gaussian(NOISE), prior)
    belief = ascend(alone, tol=1e-12, max_passes=100).point.belief
    got, wanted = problem.rows.lift(X).moments(point.belief), fixed.lift(X[:, :2]).moments(belief)
    for one, other in zip(got, wanted, strict=True):
        assert_allclose(one, other, atol=1e-7)


# Where it meets other models ---------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_without_groups_it_is_the_kernel_machine_with_lines_in_its_kernel(loss, table):
    X, y = table[0][["age", "dose"]].to_numpy()[:150] / [20, 1], table[1][:150]
    settings = {"loss": loss, "tune": None, "n_inducing": 150, "tol": 1e-10, "link": "loo"}
    lines = {"prior": 0.7, "fit_intercept": False, "standardize": False}
    mixed = BayesianMixedSVC(kernel=KERNEL, **lines, **settings).fit(X, y)
    plain = BayesianSVC(kernel=KERNEL + Linear(0.7), **settings).fit(X, y)
    assert_array_equal(mixed.inducing_points_, plain.inducing_points_)
    # Points at all rows are factored with jitter, of which the lines have none.
    assert_allclose(mixed.bound_, plain.bound_, rtol=1e-4)
    assert_allclose(moments(mixed, X), moments(plain, X), rtol=1e-2, atol=1e-2)
    assert_allclose(mixed.predict_proba(X), plain.predict_proba(X), atol=1e-2)


def test_a_linear_kernel_is_more_variance_of_the_lines(table):
    frame, y = table
    frame = frame.assign(age=(frame["age"] - 50) / 20)
    settings = {"groups": "clinic", "loss": "logistic", "tol": 1e-10, "standardize": False, "fit_intercept": False}
    curved = BayesianMixedSVC(kernel=Linear(2.0), tune=None, prior=0.5, **settings).fit(frame, y)
    linear = BayesianMixedSVC(prior=2.5, **settings).fit(frame, y)
    assert_allclose(curved.bound_, linear.bound_, rtol=1e-4)
    assert_allclose(curved.variance_components_["clinic"], linear.variance_components_["clinic"], rtol=1e-3)
    for rows in (frame, frame.assign(clinic=-1)):
        assert_allclose(moments(curved, rows), moments(linear, rows), rtol=2e-3, atol=1e-3)


def test_a_kernel_of_no_variance_leaves_the_linear_model(table):
    frame, y = table
    settings = {"groups": {"clinic": ["dose"]}, "tol": 1e-10}
    curved = BayesianMixedSVC(kernel=1e-9 * RBF(), tune=None, **settings).fit(frame, y)
    linear = BayesianMixedSVC(**settings).fit(frame, y)
    assert_allclose(moments(curved, frame), moments(linear, frame), rtol=1e-3, atol=1e-4)
    assert_allclose(curved.coef_, linear.coef_, rtol=1e-3)
    assert_allclose(curved.coef_std_, linear.coef_std_, rtol=1e-3)


def test_it_predicts_better_than_lines_or_than_no_groups(table, fitted):
    frame, y = table
    linear = BayesianMixedSVC(groups="clinic", loss="logistic").fit(frame, y)
    alone = BayesianSVC(loss="logistic").fit(frame[["age", "dose"]], y)
    assert fitted.loo_log_loss_ < min(linear.loo_log_loss_, alone.loo_log_loss_) - 0.03


def test_effects_are_as_if_the_curve_were_known(table, fitted):
    frame, y = table
    known = frame.assign(age=np.sin(frame["age"] / 8))
    oracle = BayesianMixedSVC(groups="clinic", loss="logistic").fit(known, y)
    effects, wanted = fitted.random_effects(), oracle.random_effects()
    assert effects["group"].tolist() == wanted["group"].tolist()
    assert np.corrcoef(effects["mean"], wanted["mean"])[0, 1] > 0.97
    assert_allclose(fitted.variance_components_["clinic"], oracle.variance_components_["clinic"], rtol=0.2)
    # The kernel tells nothing of dose but a line, which it may share.
    assert_allclose(fitted.coef_[0, 1], oracle.coef_[0, 1], atol=3 * fitted.coef_std_[0, 1])


def test_a_formula_says_the_same(table, fitted):
    frame, y = table
    by_formula = BayesianMixedSVC("~ age + dose + (1 | clinic)", kernel="rbf", loss="logistic", random_state=0)
    assert_allclose(moments(by_formula.fit(frame, y), frame), moments(fitted, frame), rtol=1e-9)
    assert by_formula.fixed_names_ == fitted.fixed_names_ == ("age", "dose")


@pytest.mark.parametrize(
    "term", ["(1 | clinic)", "(1 | clinic) + (1 | ward)", "(dose | clinic) + s(age)", "(1 | ward/clinic)"]
)
def test_the_features_of_the_kernel_are_columns_of_variance_one(term, table):
    frame, y = table
    frame = frame.assign(age=(frame["age"] - 50) / 20, ward=np.random.default_rng(3).integers(5, size=len(y)))
    settings = {"loss": "logistic", "tol": 1e-9, "standardize": False}
    kernel = 2.0 * RBF(1.5)  # so wide that a dozen points leave nothing over
    model = BayesianMixedSVC(f"~ 0 + age + {term}", kernel=kernel, tune=None, n_inducing=12, prior=0.5, **settings)
    model.fit(frame, y)
    phi, leftover = InducingRows.at(kernel, model.inducing_points_).lift(frame[["age"]].to_numpy())
    assert leftover.max() < 1e-4
    names = [f"p{index}" for index in range(12)]
    by_columns = frame.assign(**dict(zip(names, phi.T, strict=True)))
    formula = f"~ 0 + age + {' + '.join(names)} + {term}"
    wanted = BayesianMixedSVC(formula, prior=[0.5] + 12 * [1.0], **settings).fit(by_columns, y)
    assert_allclose(model.bound_, wanted.bound_, rtol=1e-4)
    assert model.effect_names_ == wanted.effect_names_
    for name, covariance in wanted.variance_components_.items():
        assert_allclose(model.variance_components_[name], covariance, rtol=1e-2, atol=1e-3)
    assert_allclose(moments(model, frame), moments(wanted, by_columns), rtol=1e-2, atol=1e-2)


# What was found ----------------------------------------------------------------------------------


def test_the_bound_never_falls(fitted):
    bounds = [facts["objective"] for facts in fitted.history_ if facts["accepted"]]
    assert len(bounds) > 3
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[-1]))


def test_new_groups_are_the_population(table, fitted):
    frame, _ = table
    new = frame.assign(clinic=-1)
    rows, belief = fitted.rows_, fitted.belief_
    phi, leftover = rows.fixed.lift(frame[["age", "dose"]].to_numpy())
    assert phi.shape[1] == 3 + len(fitted.inducing_points_)
    mean, variance = moments(fitted, new)
    assert_allclose(mean, phi @ belief.core_mean, rtol=1e-9, atol=1e-9)
    spread = np.einsum("ij,jk,ik->i", phi, belief.core_covariance, phi)
    assert_allclose(variance, spread + leftover + fitted.variance_components_["clinic"][0, 0], rtol=1e-9)
    assert np.all(variance > moments(fitted, frame)[1])


def test_draws_have_the_latent_moments(table, fitted):
    rows = pd.concat([table[0][:4], table[0][4:8].assign(clinic=-1)])
    draws = fitted.sample_latent(rows, 20_000, random_state=0)
    mean, variance = moments(fitted, rows)
    # Standard errors over 20,000 draws: sd/141 of a mean, and of a variance 1 %.
    assert_allclose(draws.mean(axis=1), mean, atol=4 * variance.max() ** 0.5 / 141)
    assert_allclose(draws.var(axis=1), variance, rtol=0.05)


def test_what_few_points_leave_over_varies_together(table):
    frame, y = table
    model = BayesianMixedSVC(groups="clinic", kernel=KERNEL, tune=None, n_inducing=5, random_state=0).fit(frame, y)
    rows = pd.concat([frame[:1]] * 2).assign(clinic=-1)
    draws = model.sample_latent(rows, 20_000, random_state=0)
    _, variance = moments(model, rows)
    assert_allclose(draws.var(axis=1), variance, rtol=0.05)
    # Two new clinics have the function at one place in common, and nothing else.
    population = model.variance_components_["clinic"][0, 0]
    assert_allclose(np.cov(draws)[0, 1], variance[0] - population, rtol=0.1)


def test_models_are_saved(table, fitted, tmp_path):
    fitted.save(tmp_path / "model.sm")
    again = softmargin.load(tmp_path / "model.sm")
    rows = pd.concat([table[0], table[0].assign(clinic=-1)])
    assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
    assert again.kernel_ == fitted.kernel_
    assert again.random_effects().equals(fitted.random_effects())


def test_order_and_copies_of_rows_do_not_matter(table, fitted):
    frame, y = table
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), np.arange(len(y)) % 2 + 1))
    settings = {"groups": "clinic", "kernel": "rbf", "loss": "logistic", "random_state": 0, "tol": 1e-9}
    copies = BayesianMixedSVC(**settings).fit(frame.iloc[order], y[order])
    weighted = BayesianMixedSVC(**settings).fit(frame, y, np.arange(len(y)) % 2 + 1)
    assert weighted.kernel_ == copies.kernel_
    assert_allclose(moments(weighted, frame), moments(copies, frame), rtol=1e-4, atol=1e-5)


def test_many_classes(table):
    frame, _ = table
    rng = np.random.default_rng(2)
    f = np.column_stack([np.sin(frame["age"] / 8), frame["dose"], rng.normal(size=40)[frame["clinic"]]])
    y = np.array(["a", "b", "c"])[(3 * f + rng.gumbel(size=f.shape)).argmax(axis=1)]
    model = BayesianMixedSVC(groups="clinic", kernel="rbf", loss="logistic", random_state=0).fit(frame, y)
    assert model.variance_components_["clinic"].shape == (3, 1, 1)
    assert model.score(frame, y) > 0.75
    rows = pd.concat([frame[:3], frame[:3].assign(clinic=-1)])
    draws = model.sample_latent(rows, 20_000, random_state=0)
    assert_allclose(draws.var(axis=-1), moments(model, rows)[1], rtol=0.05)


def test_chains_agree_with_the_ascent(table):
    frame, y = table
    settings = {"groups": "clinic", "kernel": 4.0 * RBF((8.0, 2.0)), "tune": None, "n_inducing": 25, "random_state": 0}
    ascent = BayesianMixedSVC(**settings).fit(frame, y)
    draws = BayesianMixedSVC(inference="gibbs", n_draws=300, n_chains=2, **settings).fit(frame, y)
    mean, variance = moments(ascent, frame)
    # The exact hinge has the posterior's mean to a part of its deviation.
    assert np.abs(moments(draws, frame)[0] - mean).mean() < 0.5 * np.sqrt(variance).mean()
    shapes = {name: values.shape[2:] for name, values in named_draws(draws).draws.items()}
    assert (shapes["coef"], shapes["weight"], shapes["clinic"]) == ((2,), (25,), (40, 1))


def test_rows_may_come_in_batches(table):
    frame, y = table
    many = pd.concat([frame.assign(dose=frame["dose"] + shift) for shift in np.linspace(-1, 1, 20)], ignore_index=True)
    labels = np.tile(y, 20)

    def batches():
        for start in range(0, len(labels), 3000):
            yield many[start : start + 3000], labels[start : start + 3000]

    settings = {"groups": "clinic", "kernel": 2.0 * RBF((8.0, 2.0)), "tune": None, "n_inducing": 30, "loss": "logistic"}
    source = BayesianMixedSVC(random_state=0, **settings).fit(Batches(batches))
    memory = BayesianMixedSVC(random_state=0, **settings).fit(many, labels)
    # Points are placed on a sample of either.
    assert_allclose(source.predict_proba(frame), memory.predict_proba(frame), atol=0.05)


def test_a_second_fit_forgets_the_first(table):
    frame, y = table
    model = BayesianMixedSVC(groups="clinic", kernel="rbf", tune=None).fit(frame, y)
    linear = model.set_params(kernel=None).fit(frame, y)
    assert not any(hasattr(linear, name) for name in ("kernel_", "inducing_points_", "jitter_", "tune_history_"))
    assert_allclose(moments(linear, frame), moments(BayesianMixedSVC(groups="clinic").fit(frame, y), frame))


# What is refused ---------------------------------------------------------------------------------


def test_missing_entries_are_refused(table, fitted):
    frame, y = table
    gaps = frame.assign(dose=frame["dose"].mask(frame["dose"] > 2))
    with pytest.raises(ValueError, match=r"'dose' has missing values.*kernel=None"):
        BayesianMixedSVC(groups="clinic", kernel="rbf").fit(gaps, y)
    with pytest.raises(ValueError, match="missing values"):
        fitted.predict(gaps)
    with pytest.raises(ValueError, match="kernel"):
        fitted.impute(gaps)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "cubic"}, "kernel must be one of"),
        ({"kernel": "rbf", "tune": "bound"}, "tune must be one of"),
        ({"kernel": "rbf", "n_inducing": 0}, "n_inducing"),
    ],
)
def test_parameters_are_checked(settings, message, table):
    with pytest.raises(ValueError, match=message):
        BayesianMixedSVC(groups="clinic", **settings).fit(*table)


def test_groups_alone_are_nothing_for_a_kernel(table):
    frame, y = table
    with pytest.raises(ValueError, match="at least one column besides the groups"):
        BayesianMixedSVC(groups="clinic", kernel="rbf").fit(frame[["clinic"]], y)
