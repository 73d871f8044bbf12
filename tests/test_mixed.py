"""Random effects, seen from the estimator."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from softmargin import BayesianLinearSVC, BayesianMixedSVC
from softmargin.links import LogisticLink, ProbitLink, SoftmaxLink
from softmargin.monitor import InterruptedFitWarning

FORMULA = "~ age + dose + (1 | clinic)"


@pytest.fixture(scope="module")
def table():
    """Twelve clinics, four doctors who work in all of them, and wards within clinics."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"age": rng.normal(50, 10, n), "dose": rng.normal(size=n)})
    clinic, doctor, ward = rng.integers(0, 12, n), rng.integers(0, 4, n), rng.integers(0, 3, n)
    frame["clinic"], frame["doctor"], frame["ward"] = [f"c{code:02}" for code in clinic], doctor, ward
    f = (
        0.1 * (frame["age"] - 50)
        + frame["dose"]
        + rng.normal(size=12)[clinic]
        + 0.5 * rng.normal(size=(12, 3))[clinic, ward]
    )
    return frame, np.where(f + rng.logistic(size=n) > 0, "ill", "well")


def moments(model, frame):
    return np.array(model.latent_mean_and_variance(frame))


# What the effects are ----------------------------------------------------------------------------


@pytest.mark.parametrize("sd", [0.5, 1.0, 2.0])
def test_the_variance_of_simulated_groups_is_recovered(sd):
    rng = np.random.default_rng(3)
    group, x = np.repeat(np.arange(200), 50), rng.normal(size=10_000)
    effect = sd * rng.normal(size=200)
    y = 0.5 + x + effect[group] + rng.logistic(size=10_000) > 0
    model = BayesianMixedSVC(groups=1, loss="logistic").fit(np.column_stack([x, group]), y)
    # Two hundred groups know their own variance to a tenth, and fifty rows know a group's effect to a third.
    assert_allclose(model.variance_components_["x1"], [[effect.var()]], rtol=0.2)
    assert_allclose(model.coef_[0, 0], 1, atol=0.1)
    assert np.corrcoef(model.random_effects()["mean"], effect)[0, 1] > 0.8


def test_slopes_vary_together_or_alone():
    rng = np.random.default_rng(4)
    group, x = np.repeat(np.arange(150), 40), rng.normal(size=6000)
    effect = rng.multivariate_normal([0, 0], [[1.0, 0.5], [0.5, 0.6]], size=150)
    frame = pd.DataFrame({"x": x, "g": group})
    y = x + effect[group, 0] + effect[group, 1] * x + rng.logistic(size=6000) > 0
    together, alone = (BayesianMixedSVC(f, loss="logistic").fit(frame, y) for f in ("~ x + (x|g)", "~ x + (x||g)"))
    assert together.effect_names_ == alone.effect_names_ == {"g": ("Intercept", "x")}
    assert_allclose(together.variance_components_["g"], np.cov(effect.T), atol=0.2)
    assert np.count_nonzero(alone.variance_components_["g"]) == 2
    by_hand = BayesianMixedSVC("~ x + (1|g) + (0 + x|g)", loss="logistic").fit(frame, y)
    assert_allclose(moments(by_hand, frame), moments(alone, frame), rtol=1e-9)


@pytest.mark.parametrize(
    "formula", ["~ dose + (1|clinic)", "~ dose + (1|clinic) + (1|doctor)", "~ dose + (1|clinic/ward)"]
)
def test_groups_are_dummies_under_a_prior_of_their_variance(formula, table):
    """With the variances that the belief settled on, dense algebra over dummies gives the same moments."""
    frame, y = table
    settings = {"tol": 1e-12, "max_iter": 1000, "loss": "logistic", "link": "loo"}
    model = BayesianMixedSVC(formula, prior=1.0, **settings).fit(frame, y)
    beliefs = [*model.belief_.hyper.levels, *model.belief_.hyper.parts]
    spread = (frame["dose"] - frame["dose"].mean()) / frame["dose"].std(ddof=0)
    columns, variances = [spread.to_numpy()[:, None]], [1.0]
    for name, belief in zip(model.effect_names_, beliefs, strict=True):
        labels = frame[name.split(":")].astype(str).agg("/".join, axis=1)
        columns.append(pd.get_dummies(labels).to_numpy(dtype=float))
        variances += [1 / belief.variance.mean_precision[0]] * columns[-1].shape[1]
    X = np.hstack(columns)
    dense = BayesianLinearSVC(prior=variances, standardize=False, **settings).fit(X, y)
    assert_allclose(moments(model, frame), dense.latent_mean_and_variance(X), rtol=1e-4, atol=1e-5)
    assert_allclose(model.predict_proba(frame), dense.predict_proba(X), atol=1e-5)


def test_nested_groups_have_several_names(table):
    frame, y = table
    slash = BayesianMixedSVC("~ age + dose + (1|clinic/ward)").fit(frame, y)
    assert set(slash.variance_components_) == {"clinic", "clinic:ward"}
    own = frame.drop(columns="doctor")
    for other, rows in [
        (BayesianMixedSVC("~ age + dose + (1|clinic) + (1|clinic:ward)"), frame),
        (BayesianMixedSVC(groups=["clinic", ("clinic", "ward")]), own),
        (BayesianMixedSVC("~ age + dose + (1|clinic) + (1|w)"), own.assign(w=own["clinic"] + own["ward"].astype(str))),
    ]:
        assert_allclose(moments(other.fit(rows, y), rows), moments(slash, frame), rtol=1e-8)
    effects = slash.random_effects()
    assert effects["factor"].value_counts().to_dict() == {"clinic:ward": 36, "clinic": 12}
    assert effects["group"].iloc[0] == ("c00", 0)


def test_curves_follow_a_sine():
    rng = np.random.default_rng(5)
    x = rng.uniform(-3, 3, 3000)
    y = 2 * np.sin(2 * x) + rng.logistic(size=3000) > 0
    at = np.linspace(-2.8, 2.8, 50)
    by_formula = BayesianMixedSVC("~ s(x)", loss="logistic").fit(pd.DataFrame({"x": x}), y)
    mean, variance = moments(by_formula, pd.DataFrame({"x": at}))
    assert np.abs(mean - 2 * np.sin(2 * at)).mean() < 0.25
    assert np.mean(np.abs(mean - 2 * np.sin(2 * at)) < 2 * np.sqrt(variance)) > 0.8
    assert set(by_formula.variance_components_) == set(by_formula.effect_names_) == {"s(x)"}
    by_column = BayesianMixedSVC(splines=0, loss="logistic").fit(x[:, None], y)
    assert_allclose(moments(by_column, at[:, None]), [mean, variance], rtol=1e-8)


def test_effects_have_intervals(table):
    frame, y = table
    model = BayesianMixedSVC("~ dose + (1 + age|clinic)").fit(frame, y)
    wide, narrow = model.random_effects(0.99), model.random_effects(0.5)
    assert list(wide.columns) == ["factor", "group", "effect", "mean", "sd", "low", "high"]
    assert list(wide["effect"][:2]) == ["Intercept", "age"]
    assert (wide["low"] < narrow["low"]).all()
    assert (wide["high"] > narrow["high"]).all()
    assert_allclose((wide["high"] - wide["low"]) / wide["sd"], 2 * 2.5758, rtol=1e-4)
    assert BayesianMixedSVC("~ dose").fit(frame, y).random_effects().shape == (0, 7)


# What must not matter ----------------------------------------------------------------------------

MODELS = [
    BayesianMixedSVC(FORMULA),
    BayesianMixedSVC("~ age + dose + (1|clinic/ward) + (1|doctor)", loss="logistic"),
    BayesianMixedSVC("~ age + dose + (1 + dose|clinic)"),
    BayesianMixedSVC("~ s(age, df=5) + dose + (age||clinic)"),
    BayesianMixedSVC("~ age * dose + (1|clinic)", prior="laplace-zero", rho="learned"),
    BayesianMixedSVC(FORMULA, loss="hinge-augmented", variance_prior="half-cauchy"),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.formula + model.prior[:1])


@every_model
@pytest.mark.parametrize("missing", [False, True])
def test_the_order_of_rows_does_not_matter(model, missing, table, fit_of, rng):
    frame, y = with_gaps(table, rng) if missing else table
    if missing and "s(" in model.formula:
        model = BayesianMixedSVC("~ age + s(dose, df=5) + (dose||clinic)")  # curves and slopes need their columns
    order = rng.permutation(len(y))
    one = clone(model).fit(frame, y) if missing else fit_of(model)
    other = clone(model).fit(frame.iloc[order], y[order])
    assert_allclose(moments(other, frame), moments(one, frame), rtol=1e-6, atol=1e-8)
    assert_allclose(other.predict_proba(frame), one.predict_proba(frame), atol=1e-8)


@every_model
def test_weight_k_is_k_copies_and_weight_zero_is_none(model, table, rng):
    frame, y = table
    weight = rng.integers(0, 3, size=len(y)) * (frame["clinic"] != "c03").to_numpy()
    weighted = clone(model).fit(frame, y, sample_weight=weight)
    repeated = clone(model).fit(frame.loc[frame.index.repeat(weight)], y.repeat(weight))
    assert_allclose(moments(weighted, frame), moments(repeated, frame), rtol=1e-6, atol=1e-8)
    assert_allclose(weighted.bound_, repeated.bound_, rtol=1e-9)
    assert_allclose(weighted.loo_log_loss_, repeated.loo_log_loss_, rtol=1e-6)
    assert "c03" not in set(weighted.random_effects()["group"])


@every_model
def test_units_of_columns_do_not_matter(model, table, fit_of):
    frame, y = table
    other = frame.assign(age=1000 * frame["age"], dose=frame["dose"] / 1000)
    one, two = fit_of(model), clone(model).fit(other, y)
    assert_allclose(moments(two, other), moments(one, frame), rtol=1e-5, atol=1e-7)
    unit = {"age": 1000.0, "dose": 1 / 1000}
    for name, effects in one.effect_names_.items():
        units = np.array([unit.get(effect, 1.0) for effect in effects])
        in_units = two.variance_components_[name] * np.outer(units, units)
        assert_allclose(in_units, one.variance_components_[name], rtol=1e-4)
    means = (fit.random_effects().set_index("effect")["mean"] for fit in (one, two))
    ours, theirs = (mean[mean.index == "Intercept"] for mean in means)
    assert_allclose(theirs, ours, rtol=1e-4, atol=1e-7)


@every_model
def test_answers_do_not_depend_on_the_batch_and_agree(model, table, fit_of):
    (frame, y), fitted = table, fit_of(model)
    p = fitted.predict_proba(frame)
    assert_allclose(np.vstack([fitted.predict_proba(frame.iloc[[i]]) for i in range(10)]), p[:10], rtol=1e-9)
    assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(frame))
    assert fitted.score(frame, y) > 0.7
    twin = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(twin.predict_proba(frame), p)
    assert clone(fitted).get_params() == fitted.get_params()
    assert model.formula in repr(fitted)


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: model.formula)
def test_a_new_group_is_the_population(model, table, fit_of):
    (frame, y), fitted = table, fit_of(model)
    new = frame.assign(clinic="nowhere", doctor=-1)
    mean, variance = moments(fitted, new)
    columns = frame[list(fitted.fixed_names_)].to_numpy()
    assert_allclose(mean, columns @ fitted.coef_[0] + fitted.intercept_[0], rtol=1e-9, atol=1e-9)
    assert (variance > moments(fitted, frame)[1]).all()
    if fitted.formula == FORMULA:
        known = BayesianMixedSVC("~ age + dose").fit(frame, y)
        assert (variance > fitted.variance_components_["clinic"][0, 0]).all()
        assert known.variance_components_ == {}


def test_a_group_with_another_parent_is_a_new_one(table):
    frame, y = table
    own = frame.assign(w=frame["clinic"] + frame["ward"].astype(str))
    model = BayesianMixedSVC("~ dose + (1|clinic) + (1|w)").fit(own, y)
    moved = own.iloc[:5].assign(w="c050")
    moved["clinic"] = "c07"
    assert_allclose(moments(model, moved), moments(model, moved.assign(w="nowhere")), rtol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("prior", ["ridge", "laplace-zero"])
def test_latent_draws_have_the_latent_moments(missing, prior, table, rng):
    frame, y = with_gaps(table, rng) if missing else table
    model = BayesianMixedSVC("~ age + dose + (dose|clinic)", prior=prior).fit(frame, y)
    rows = pd.concat([frame[:4], frame[4:8].assign(clinic="nowhere")])
    rows.loc[rows.index[[0, 5]], "age"] = np.nan
    draws = model.sample_latent(rows, 8000, random_state=0)
    mean, variance = moments(model, rows)
    # Standard errors over 8,000 draws: sd/89 of a mean, and of a variance 1.6 %, more where entries are missing.
    assert_allclose(draws.mean(axis=1), mean, atol=4 * variance.max() ** 0.5 / 89)
    assert_allclose(draws.var(axis=1), variance, rtol=0.08)


def with_gaps(table, rng, share=0.15):
    """Some ages are missing (slopes and splines need their columns)."""
    frame, y = table
    return frame.assign(age=frame["age"].mask(rng.random(len(y)) < share)), y


# Where it is used --------------------------------------------------------------------------------


def test_frames_of_all_kinds_and_arrays_give_one_answer(table):
    frame, y = table
    expected = BayesianMixedSVC(FORMULA).fit(frame, y).predict_proba(frame)
    columns = {name: frame[name].tolist() for name in frame}
    small = frame[["age", "dose", "clinic"]]
    codes = np.column_stack([small[["age", "dose"]], small["clinic"].str[1:].astype(float)])
    for model, rows in [
        (BayesianMixedSVC(FORMULA), pl.DataFrame(columns)),
        (BayesianMixedSVC(FORMULA), frame.astype({"clinic": "category", "age": "Float64"})),
        (BayesianMixedSVC(groups="clinic"), small),
        (BayesianMixedSVC(groups=["clinic"]), pl.DataFrame(columns).select("clinic", "age", "dose")),
        (BayesianMixedSVC(groups=2), codes),
        (BayesianMixedSVC(groups=-1), codes.astype(object)),
        (BayesianMixedSVC(groups={2: []}), codes / 4),  # labels may be any numbers
    ]:
        model.fit(rows, pl.Series(y.tolist()) if isinstance(rows, pl.DataFrame) else y)
        assert_allclose(model.predict_proba(rows), expected, rtol=1e-7)
        assert model.n_features_in_ == 3
        if hasattr(rows, "columns"):
            assert_array_equal(model.feature_names_in_, [name for name in rows.columns if name in small])


def test_labels_come_from_the_left_side(table):
    frame, y = table
    labelled = frame.assign(state=y)
    model = BayesianMixedSVC("state ~ age + dose + (1|clinic)").fit(labelled)
    assert_array_equal(model.classes_, ["ill", "well"])
    assert_allclose(model.predict_proba(frame), BayesianMixedSVC(FORMULA).fit(frame, y).predict_proba(frame))
    assert model.score(labelled) == model.score(frame, y) > 0.7
    assert cross_val_score(BayesianMixedSVC(model.formula), labelled, cv=3).mean() > 0.6
    assert not model.__sklearn_tags__().target_tags.required
    assert BayesianMixedSVC(FORMULA).__sklearn_tags__().target_tags.required


def test_cross_validation_and_grids_take_frames(table):
    frame, y = table
    assert cross_val_score(BayesianMixedSVC(FORMULA), frame, y, cv=3, scoring="neg_log_loss").mean() > -0.65
    grid = GridSearchCV(BayesianMixedSVC(FORMULA, prior="laplace-zero"), {"rho": [0.1, 0.9]}, cv=3).fit(frame, y)
    assert grid.best_score_ > 0.65
    assert grid.best_estimator_.inclusion_probability_.shape == (2,)


def test_interrupting_keeps_the_best_model_so_far(table, interrupt_pass):
    frame, y = table
    interrupt_pass(4)
    with pytest.warns(InterruptedFitWarning):
        model = BayesianMixedSVC(FORMULA).fit(frame, y)
    assert model.stop_reason_ == "interrupt"
    assert model.score(frame, y) > 0.7


@pytest.mark.filterwarnings("ignore:Time was up")
@pytest.mark.parametrize("inference", ["cavi", "gibbs"])
def test_limits_on_time_are_kept(inference, table):
    frame, y = table
    model = BayesianMixedSVC(FORMULA, inference=inference, max_time=1e-9, random_state=0).fit(frame, y)
    assert model.stop_reason_ == "time"
    assert np.isfinite(model.predict_proba(frame)).all()


@pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")
@pytest.mark.parametrize("prior", ["ridge", "laplace-zero"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("effects", ["", " + (1|clinic)", " + (1|clinic/ward) + (1|doctor)"])
def test_draws_agree_with_the_ascent(prior, missing, effects, table, rng):
    frame, y = with_gaps(table, rng) if missing else table
    settings = {"prior": prior, "loss": "hinge"}
    ascended = BayesianMixedSVC("~ age + dose" + effects, **settings).fit(frame, y)
    drawn = BayesianMixedSVC(
        "~ age + dose" + effects, inference="gibbs", n_draws=200, n_chains=2, random_state=0, **settings
    ).fit(frame, y)
    (mean, variance), (other, other_variance) = moments(ascended, frame), moments(drawn, frame)
    assert np.sqrt(np.mean((mean - other) ** 2)) < 0.25 * mean.std()
    # The variational belief is the narrower one: its factors do not know of each other.
    assert 0.7 < np.median(other_variance / variance) < 4
    assert np.abs(ascended.predict_proba(frame) - drawn.predict_proba(frame)).mean() < 0.03
    assert drawn.draws_.weights.shape == (400, len(drawn.belief_.mean))
    for name, effect in drawn.random_effects().groupby("factor"):
        assert (effect["low"] < effect["high"]).all()
        assert drawn.variance_components_[name][0, 0] > 0


@pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")
def test_variances_of_draws_are_their_averages(table):
    frame, y = table
    settings = {"inference": "gibbs", "n_draws": 50, "n_chains": 2, "random_state": 0}
    model = BayesianMixedSVC("~ dose + (1|clinic)", **settings).fit(frame, y)
    precision = model.draws_.hypers.levels[0].variance
    assert_allclose(model.variance_components_["clinic"][0, 0], (precision.rate / precision.shape).mean(), rtol=1e-10)


def test_a_second_fit_forgets_the_first(table):
    frame, y = table
    model = BayesianMixedSVC(FORMULA, prior="laplace-zero").fit(frame, y)
    assert hasattr(model, "inclusion_probability_")
    model.set_params(prior="ridge", formula=None, groups=2).fit(frame[["age", "dose", "doctor"]].to_numpy(), y)
    assert not hasattr(model, "inclusion_probability_")
    assert not hasattr(model, "feature_names_in_")
    assert list(model.variance_components_) == ["x2"]


# The link -----------------------------------------------------------------------------------------


def test_a_likelihood_has_a_link_of_its_own(table):
    frame, y = table
    model = BayesianMixedSVC(FORMULA)
    assert model.link == "auto"
    logistic = clone(model).set_params(loss="logistic").fit(frame, y)
    assert logistic.link_ == LogisticLink()
    assert clone(model).set_params(loss="logistic-jj").fit(frame, y).link_ == LogisticLink()
    assert clone(model).set_params(loss="probit").fit(frame, y).link_ == ProbitLink()
    fitted = clone(model).set_params(loss="logistic", link="loo").fit(frame, y)
    assert fitted.link_ != LogisticLink()
    # Rows are left out all the same, and judged by the link that is not fitted on them.
    assert_allclose(logistic.loo_log_loss_, fitted.loo_log_loss_, rtol=0.02)
    assert clone(model).set_params(loss="logistic", link="logistic").fit(frame, y).loo_log_loss_ is None


def test_the_hinge_has_none_nor_have_many_classes(table):
    frame, y = table
    hinge = BayesianMixedSVC(FORMULA).fit(frame, y)
    assert hinge.link_ == BayesianMixedSVC(FORMULA, link="loo").fit(frame, y).link_
    three = np.where(y == "ill", "a", np.where(np.arange(len(y)) % 2, "b", "c"))
    many = BayesianMixedSVC(FORMULA, loss="logistic").fit(frame, three)
    assert isinstance(many.link_, SoftmaxLink)
    assert np.any(many.link_.offset != 0)


def test_only_models_of_groups_ask_the_likelihood_for_a_link():
    with pytest.raises(ValueError, match="link must be one of 'loo', 'probit', 'logistic', got 'auto'"):
        BayesianLinearSVC(link="auto").fit(np.eye(4), [0, 0, 1, 1])
