"""Random effects where there are more than two classes: each has effects, and variances of them, of its own."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import references_grouped as dense
from softmargin import BayesianLinearSVC, BayesianMixedSVC, arrow, gaussian
from softmargin.arrow import Layout
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.gaussian import ClassBelief
from softmargin.likelihoods import AugmentedHinge, CrammerSinger, Hinge, OneVersusRest, Rivals, Softmax
from softmargin.priors import Classwise, Ridge, Structured, Variances
from softmargin.rows import ClasswiseRows, Factor, GroupedRows, LinearRows
from softmargin.steps import ascend

K = 3
FORMULA = "~ age + dose + (1 | clinic)"


@pytest.fixture(scope="module")
def table():
    """Ten clinics, four doctors who work in all of them, and wards within clinics."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"age": rng.normal(50, 10, n), "dose": rng.normal(size=n)})
    clinic, doctor, ward = rng.integers(0, 10, n), rng.integers(0, 4, n), rng.integers(0, 2, n)
    frame["clinic"], frame["doctor"], frame["ward"] = [f"c{code:02}" for code in clinic], doctor, ward
    f = np.column_stack([0.1 * (frame["age"] - 50), frame["dose"], -frame["dose"]])
    f = 1.5 * f + rng.normal(size=(10, K))[clinic] + 0.5 * rng.normal(size=(10, 2, K))[clinic, ward]
    return frame, np.array(["well", "ill", "away"])[(f + rng.gumbel(size=f.shape)).argmax(axis=1)]


def moments(model, frame):
    return np.array(model.latent_mean_and_variance(frame))


# Products with an arrow, and rows of several classes ---------------------------------------------------------------

LAYOUTS = [
    Layout(((7, 1),), (), 4),
    Layout(((9, 2), (4, 1)), (np.array([0, 0, 1, 3, 1, 0, 3, 3, 1]),), 3),
    Layout(((8, 1), (5, 3), (2, 2)), (np.array([4, 0, 0, 1, 1, 2, 3, 3]), np.array([0, 1, 1, 0, 1])), 3),
    Layout((), (), 5),
    Layout(((6, 2), (3, 1)), (np.array([0, 2, 2, 1, 0, 1]),), 0),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=range(5))
def test_products_with_covariance_and_precision_are_those_of_the_dense_belief(layout, rng):
    n, phi = layout.n_weights, np.zeros((60, layout.n_weights))
    for row in phi:
        row[n - layout.n_core :] = rng.normal(size=layout.n_core)
        if layout.sizes:
            for pair in dense.ancestors(layout, 0, rng.integers(layout.sizes[0][0])):
                row[dense.places(layout, *pair)] = rng.normal(size=len(dense.places(layout, *pair)))
    matrix, h, x = phi.T @ phi + 0.3 * np.eye(n), rng.normal(size=n), rng.normal(size=n)
    ours, whole = (
        arrow.from_natural(dense.arrow_from_dense(matrix, layout), h, layout),
        gaussian.from_natural(matrix, h),
    )
    kept = x.copy()
    assert_allclose(ours.covariance_times(x), whole.covariance_times(x), rtol=1e-8, atol=1e-10)
    assert_allclose(ours.precision_times(x), matrix @ x, rtol=1e-8, atol=1e-9)
    assert_array_equal(x, kept)


PARENTS = np.array([0, 0, 1, 1, 2])
GROUPED = GroupedRows(
    LinearRows(np.array([0.3, -1.0]), np.array([2.0, 0.5])),
    2,
    (Factor((2,), True, 3), Factor((), True, 4)),
    (5, 3),
    (PARENTS,),
    (2,),
    (Factor((2,), True, 5),),
    (4,),
)


def grouped_table(rng, n=40):
    codes = rng.integers(5, size=n)
    return np.column_stack([rng.normal(size=(n, 3)), codes, PARENTS[codes], rng.integers(4, size=n)])


def dense_rows(X):
    """The same rows with a column for every weight."""
    ones, z = np.ones((len(X), 1)), np.column_stack([np.ones(len(X)), X[:, 2]])
    phi = np.column_stack([(X[:, :2] - [0.3, -1.0]) / [2.0, 0.5], ones, X[:, 2]])
    levels = [(z, X[:, 3].astype(int), 5), (ones, X[:, 4].astype(int), 3)]
    return dense.dense_features(phi, levels, [(z, X[:, 5].astype(int), 4)], GROUPED.layout)


def test_classes_are_seen_and_pulled_as_by_dummies(rng):
    X = grouped_table(rng)
    phi, features = dense_rows(X), ClasswiseRows(GROUPED, K).lift(X)
    weights, values = rng.normal(size=(phi.shape[1], K)), rng.normal(size=(len(X), K))
    assert_allclose(features.latent_of(weights), phi @ weights, rtol=1e-9, atol=1e-12)
    assert_allclose(features.pulled(values), phi.T @ values, rtol=1e-9, atol=1e-12)
    one = LinearRows(np.zeros(6), np.ones(6)).lift(X)
    few = rng.normal(size=(7, K))
    assert_allclose(one.latent_of(few), one.phi @ few, rtol=1e-12)
    assert_allclose(one.pulled(values), one.phi.T @ values, rtol=1e-12)


MEETING = [kind(base) for kind in (Rivals, CrammerSinger, OneVersusRest) for base in (Hinge(), AugmentedHinge())]


@pytest.mark.parametrize("likelihood", [*MEETING, Softmax()], ids=str)
def test_groups_of_known_variance_are_dummies_under_a_known_prior(likelihood, rng):
    """Arrows and dense algebra come to the same beliefs, by steps of all classes together as well."""
    X = grouped_table(rng, 90)
    phi, layout = dense_rows(X), GROUPED.layout
    y = (phi @ rng.normal(size=(phi.shape[1], K)) + rng.gumbel(size=(90, K))).argmax(axis=1).astype(float)
    # Of shape 1e9, an inverse gamma is as good as a number.
    known = Variances(2, 1e9, 1e9), Variances(1, 1e9, 1e9)
    precision = np.ones(layout.n_core)
    structured = Structured(Ridge(precision), (), known, layout)
    alike = Classwise.alike(structured, K)
    grouped = Problem(Table(X, y, np.ones(90), 32), ClasswiseRows(GROUPED, K), likelihood, alike)  # pyright: ignore
    plain = LinearRows(np.zeros(phi.shape[1]), np.ones(phi.shape[1]), intercept=False)
    ridge = Classwise.alike(Ridge(np.ones(phi.shape[1])), K)
    flat = Problem(Table(phi, y, np.ones(90), 32), ClasswiseRows(plain, K), likelihood, ridge)  # pyright: ignore
    assert grouped.goes_together == flat.goes_together == likelihood.couples
    one, other = (ascend(problem, tol=1e-12, max_passes=800).point.belief for problem in (grouped, flat))
    tolerance = 1e-4 if likelihood.is_bound else 1e-3
    assert isinstance(one, ClassBelief)
    for got, wanted in zip(one.parts, other.parts, strict=True):
        assert_allclose(got.mean, wanted.mean, rtol=tolerance, atol=10 * tolerance)
        assert_allclose(got.variances, wanted.variances, rtol=20 * tolerance)


def test_unseen_groups_have_the_variance_of_their_population_in_each_class(rng):
    X = grouped_table(rng)
    X[:9, 3], X[3:9, 4], X[6:12, 5] = -1, -1, -1
    slopes = np.stack([np.array([[0.5, 0.1], [0.1, 0.2]]), np.eye(2), 3 * np.eye(2)])
    single, crossed = np.array([1.0, 2.0, 0.5]).reshape(K, 1, 1), 0.3 * slopes
    rows = ClasswiseRows(GROUPED._replace(population=(slopes, single, crossed)), K)
    belief = ClassBelief(tuple(_random_belief(rng) for _ in range(K)))
    latent = rows.lift(X).moments(belief)
    root = rows.leftover_root(X)
    for k in range(K):
        one = GROUPED._replace(population=(slopes[k], single[k], crossed[k]))
        mu, spread, leftover = one.lift(X).moments(belief.parts[k])
        assert_allclose(latent.mu[:, k], mu)
        assert_allclose(latent.spread[:, k], spread)
        assert_allclose(latent.leftover[:, k], leftover)
        assert root is not None
        assert_allclose(root[:, :, k], one.leftover_root(X))
    view = rows.view(belief, X)
    assert_allclose(view.moments(X)[1], latent.v)
    everybody_known = rows.lift(X[12:]).moments(belief)
    assert everybody_known.leftover.shape == (28, K)
    assert not everybody_known.leftover.any()


def _random_belief(rng):
    layout = GROUPED.layout
    G, h = GROUPED.lift(grouped_table(rng)).gather(rng.uniform(0.2, 2, size=40), rng.normal(size=40))
    return arrow.from_natural(arrow.with_precision(G, [np.eye(2), np.eye(1)], np.ones(layout.n_core)), h, layout)


# What is found -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "formula",
    [
        FORMULA,
        "~ dose + (1 + age|clinic)",
        "~ dose + (1|clinic/ward)",
        "~ dose + (1|clinic) + (1|doctor)",
        "~ s(age, df=5) + (1|clinic)",
    ],
)
@pytest.mark.parametrize("loss", ["hinge-augmented", "logistic"])
def test_one_class_against_the_rest_is_a_model_of_two_for_each(formula, loss, table):
    frame, y = table
    settings = {"loss": loss, "tol": 1e-10, "max_iter": 3000}
    many = BayesianMixedSVC(formula, multi_class="ovr", **settings).fit(frame, y)
    two = [BayesianMixedSVC(formula, **settings).fit(frame, y == label) for label in many.classes_]
    assert_allclose(many.coef_, np.concatenate([model.coef_ for model in two]), rtol=2e-3, atol=2e-4)
    assert_allclose(many.coef_std_, np.concatenate([model.coef_std_ for model in two]), rtol=2e-3)
    assert_allclose(many.intercept_, np.concatenate([model.intercept_ for model in two]), rtol=2e-3, atol=5e-3)
    assert_allclose(many.prior_variance_, [model.prior_variance_ for model in two], rtol=2e-3)
    assert_allclose(many.bound_, sum(model.bound_ for model in two), rtol=1e-6)
    assert many.effect_names_ == two[0].effect_names_
    for name, covariances in many.variance_components_.items():
        q = len(many.effect_names_[name])
        assert covariances.shape == (K, q, q)
        assert_allclose(covariances, [model.variance_components_[name] for model in two], rtol=2e-2, atol=1e-3)
    effects = many.random_effects()
    for label, model in zip(many.classes_, two, strict=True):
        own = effects[effects["class"] == label].drop(columns="class").reset_index(drop=True)
        wanted = model.random_effects()
        assert list(own.columns) == list(wanted.columns)
        assert own["group"].tolist() == wanted["group"].tolist()
        assert own["effect"].tolist() == wanted["effect"].tolist()
        assert_allclose(own["mean"], wanted["mean"], atol=5e-3)
        assert_allclose(own["sd"], wanted["sd"], rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("settings", [{}, {"loss": "logistic"}, {"multi_class": "crammer-singer"}], ids=str)
@pytest.mark.parametrize(
    "formula", ["~ dose + (1|clinic)", "~ dose + (1|clinic) + (1|doctor)", "~ dose + (1|clinic/ward)"]
)
def test_groups_are_dummies_under_a_prior_of_their_variance(formula, settings, table):
    """With the variances that each class settled on, dense algebra over dummies gives the same moments."""
    frame, y = table
    settings = {"tol": 1e-12, "max_iter": 1000, "prior": 1.0} | settings
    model = BayesianMixedSVC(formula, **settings).fit(frame, y)
    dose = ((frame["dose"] - frame["dose"].mean()) / frame["dose"].std(ddof=0)).to_numpy()
    columns = [dose[:, None], np.ones((len(y), 1))]
    precisions = [[np.array([1.0]), np.array([1e-3])] for _ in range(K)]
    for index, name in enumerate(model.effect_names_):
        labels = frame[name.split(":")].astype(str).agg("/".join, axis=1)
        columns.append(pd.get_dummies(labels).to_numpy(dtype=float))
        for k, hyper in enumerate(model.belief_.hyper):
            belief = [*hyper.levels, *hyper.parts][index]
            precisions[k].append(np.full(columns[-1].shape[1], belief.variance.mean_precision[0]))
    X = np.hstack(columns)
    rows = ClasswiseRows(LinearRows(np.zeros(X.shape[1]), np.ones(X.shape[1]), intercept=False), K)
    prior = Classwise(tuple(Ridge(np.concatenate(part)) for part in precisions))
    codes = np.searchsorted(model.classes_, y).astype(float)
    likelihood = model._likelihood(model.loss_, K)
    problem = Problem(Table(X, codes, np.ones(len(y)), 128), rows, likelihood, prior)  # pyright: ignore
    belief = ascend(problem, tol=1e-12, max_passes=2000).point.belief
    latent, (mean, variance) = problem.latent(belief), moments(model, frame)
    tolerance = 5e-3 if model.multi_class == "crammer-singer" else 5e-4
    assert_allclose(mean - mean.mean(), latent.mu - latent.mu.mean(), rtol=tolerance, atol=tolerance)
    # An intercept that all classes share is told by nothing but its nearly flat prior.
    assert_allclose(mean.mean(), latent.mu.mean(), atol=20 * tolerance)
    assert_allclose(variance, latent.v, rtol=10 * tolerance)


def test_variances_of_simulated_groups_are_recovered_in_each_class():
    rng = np.random.default_rng(3)
    group, x = np.repeat(np.arange(150), 40), rng.normal(size=6000)
    effect = rng.normal(size=(150, K)) * [2.0, 0.7, 0.0]
    f = np.column_stack([x, -x, 0 * x]) + effect[group]
    y = (f + rng.gumbel(size=f.shape)).argmax(axis=1)
    model = BayesianMixedSVC(groups=1, loss="logistic").fit(np.column_stack([x, group]), y)
    components = model.variance_components_["x1"]
    assert components.shape == (K, 1, 1)
    # What the effects of all classes have in common, rows do not tell: only those of differences are to be found.
    means = model.random_effects()["mean"].to_numpy().reshape(K, 150)
    away = (means[0] - means[1], effect[:, 0] - effect[:, 1])
    assert np.corrcoef(*away)[0, 1] > 0.9
    assert_allclose(away[0].std(), away[1].std(), rtol=0.25)
    assert components[0] > components[1]
    assert_allclose(model.coef_[0] - model.coef_[1], 2, atol=0.25)


# What must not matter ----------------------------------------------------------------------------------------------

MODELS = [
    BayesianMixedSVC(FORMULA),
    BayesianMixedSVC("~ age + dose + (1|clinic/ward) + (1|doctor)", loss="logistic"),
    BayesianMixedSVC("~ age + dose + (1 + dose|clinic)", multi_class="ovr"),
    BayesianMixedSVC("~ s(age, df=5) + dose + (age||clinic)", loss="hinge-augmented"),
    BayesianMixedSVC("~ age * dose + (1|clinic)", prior="laplace-zero", loss="logistic"),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.formula + model.prior[:1])


@every_model
def test_answers_agree_and_do_not_depend_on_the_batch(model, table, fit_of):
    (frame, y), fitted = table, fit_of(model)
    p = fitted.predict_proba(frame)
    assert p.shape == (400, K)
    assert_allclose(np.vstack([fitted.predict_proba(frame.iloc[[i]]) for i in range(10)]), p[:10], rtol=1e-9)
    assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(frame))
    assert fitted.score(frame, y) > 0.6
    assert fitted.coef_.shape == (K, len(fitted.fixed_names_))
    assert all(part.shape[0] == K for part in fitted.variance_components_.values())
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(frame), p)
    again = clone(model).fit(frame, y)
    assert_array_equal(again.predict_proba(frame), p)


@every_model
def test_order_and_weights_of_rows_and_units_of_columns(model, table, fit_of, rng):
    (frame, y), one = table, fit_of(model)
    order = rng.permutation(len(y))
    other = clone(model).fit(frame.iloc[order], y[order])
    assert_allclose(moments(other, frame), moments(one, frame), rtol=1e-4, atol=1e-5)
    weight = rng.integers(0, 3, size=len(y)) * (frame["clinic"] != "c03").to_numpy()
    weighted = clone(model).fit(frame, y, sample_weight=weight)
    repeated = clone(model).fit(frame.loc[frame.index.repeat(weight)], y.repeat(weight))
    assert_allclose(moments(weighted, frame), moments(repeated, frame), rtol=1e-4, atol=1e-5)
    assert_allclose(weighted.bound_, repeated.bound_, rtol=1e-8)
    assert_allclose(weighted.loo_log_loss_, repeated.loo_log_loss_, rtol=1e-4)
    assert "c03" not in set(weighted.random_effects()["group"])
    scaled = frame.assign(age=1000 * frame["age"], dose=frame["dose"] / 1000)
    two = clone(model).fit(scaled, y)
    assert_allclose(moments(two, scaled), moments(one, frame), rtol=1e-3, atol=1e-4)
    unit = {"age": 1000.0, "dose": 1 / 1000}
    for name, effects in one.effect_names_.items():
        units = np.array([unit.get(effect, 1.0) for effect in effects])
        in_units = two.variance_components_[name] * np.outer(units, units)
        assert_allclose(in_units, one.variance_components_[name], rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("model", MODELS[:4], ids=lambda model: model.formula)
def test_names_of_classes_do_not_matter(model, table, fit_of):
    (frame, y), one = table, fit_of(model)
    renamed = clone(model).fit(frame, np.where(y == "away", "zzz", y))
    assert_allclose(moments(renamed, frame)[..., [2, 0, 1]], moments(one, frame), rtol=1e-3, atol=1e-4)
    for name, components in one.variance_components_.items():
        assert_allclose(renamed.variance_components_[name][[2, 0, 1]], components, rtol=1e-2, atol=1e-5)


@every_model
def test_unseen_groups_are_the_prior_of_each_class_and_draws_have_the_moments(model, table, fit_of):
    frame, fitted = table[0], fit_of(model)
    rows = frame.iloc[:4]
    new = rows.assign(clinic="never seen")
    (_, seen), (_, unseen) = moments(fitted, rows), moments(fitted, new)
    assert np.all(unseen > 0)
    draws, (mean, variance) = fitted.sample_latent(new, 5000, random_state=0), moments(fitted, new)
    assert draws.shape == (4, K, 5000)
    assert_allclose(draws.mean(axis=2), mean, atol=5 * variance.max() ** 0.5 / 70)
    assert_allclose(draws.var(axis=2), variance, rtol=0.15)
    if model.formula == FORMULA:
        component = fitted.variance_components_["clinic"][:, 0, 0]
        in_units = frame[["age", "dose"]].iloc[:4].to_numpy() @ fitted.coef_.T + fitted.intercept_
        assert_allclose(mean, in_units, rtol=1e-6, atol=1e-6)
        assert np.all(unseen >= component)
        assert np.all(unseen.mean(axis=0) > seen.mean(axis=0))


# Where it is used --------------------------------------------------------------------------------------------------


def test_a_formula_may_name_the_classes(table):
    frame, y = table
    named = BayesianMixedSVC("state ~ age + dose + (1|clinic)").fit(frame.assign(state=y))
    given = BayesianMixedSVC(FORMULA).fit(frame, y)
    assert_array_equal(named.predict_proba(frame), given.predict_proba(frame))
    assert named.score(frame.assign(state=y)) == given.score(frame, y)
    categories = frame.assign(state=pd.Categorical(y, categories=["well", "ill", "away"]))
    other = BayesianMixedSVC("state ~ age + dose + (1|clinic)").fit(categories)
    assert_array_equal(other.classes_, np.unique(y))
    assert_array_equal(other.predict(frame), given.predict(frame))


def test_effects_are_a_frame_with_a_column_of_classes(table):
    frame, y = table
    model = BayesianMixedSVC("~ dose + (1 + age|clinic) + (1|doctor)").fit(frame, y)
    wide, narrow = model.random_effects(0.99), model.random_effects(0.5)
    assert list(wide.columns) == ["class", "factor", "group", "effect", "mean", "sd", "low", "high"]
    assert wide["class"].value_counts().to_dict() == dict.fromkeys(model.classes_, 2 * 10 + 4)
    assert (wide["low"] < narrow["low"]).all()
    assert_allclose((wide["high"] - wide["low"]) / wide["sd"], 2 * 2.5758, rtol=1e-4)
    empty = BayesianMixedSVC("~ dose").fit(frame, y).random_effects()
    assert list(empty.columns) == list(wide.columns)
    assert len(empty) == 0


def test_without_groups_it_is_the_linear_model(table):
    frame, y = table
    X = frame[["age", "dose"]].to_numpy()
    for settings in ({}, {"loss": "logistic", "prior": "ard"}, {"multi_class": "crammer-singer"}):
        mixed, linear = (model(**settings).fit(X, y) for model in (BayesianMixedSVC, BayesianLinearSVC))
        assert_allclose(mixed.coef_, linear.coef_, rtol=1e-2, atol=2e-3)
        assert_allclose(mixed.coef_std_, linear.coef_std_, rtol=1e-2)


def test_effects_alone(table):
    frame, y = table
    model = BayesianMixedSVC("~ 0 + (1|clinic)").fit(frame, y)
    assert model.coef_.shape == model.coef_std_.shape == (K, 0)
    assert_allclose(model.intercept_, np.zeros(K))
    assert model.variance_components_["clinic"].shape == (K, 1, 1)
    assert np.isfinite(model.predict_proba(frame)).all()


def test_cross_validation_and_weights_of_classes(table):
    frame, y = table
    assert cross_val_score(BayesianMixedSVC(FORMULA), frame, y, cv=3, scoring="neg_log_loss").mean() > -0.95
    factor = {"well": 1.0, "ill": 4.0, "away": 1.0}
    by_class = BayesianMixedSVC(FORMULA, class_weight=factor).fit(frame, y)
    by_row = BayesianMixedSVC(FORMULA).fit(frame, y, sample_weight=np.vectorize(factor.get)(y))
    assert_allclose(by_class.coef_, by_row.coef_, rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="inference='gibbs' supports two classes only"):
        BayesianMixedSVC(FORMULA, inference="gibbs").fit(frame, y)
