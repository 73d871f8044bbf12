"""Passes on a device: the same answers wherever rows are.  PyTorch on the CPU stands for one where there is none."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from softmargin import BayesianGPC, BayesianLinearSVC, BayesianSVC, chunks
from softmargin.chunks import Table
from softmargin.devices import Pinned, Place, on_host, placed
from softmargin.engine import Problem
from softmargin.kernels import RBF
from softmargin.likelihoods import Hinge
from softmargin.priors import Ridge
from softmargin.rows import InducingRows
from test_sources import in_batches, rows

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
pytestmark = pytest.mark.parametrize("device", DEVICES)
MODELS = {
    "svc": lambda **settings: BayesianSVC(n_inducing=20, random_state=0, **settings),
    "cavi": lambda **settings: BayesianSVC(n_inducing=20, inference="cavi", random_state=0, **settings),
    "augmented": lambda **settings: BayesianSVC(loss="hinge-augmented", n_inducing=20, random_state=0, **settings),
    "ecm": lambda **settings: BayesianSVC(inference="ecm", n_inducing=20, random_state=0, **settings),
    "gpc": lambda **settings: BayesianGPC(n_inducing=20, random_state=0, **settings),
    "linear": lambda **settings: BayesianLinearSVC(random_state=0, **settings),
    "ard": lambda **settings: BayesianLinearSVC(prior="ard", random_state=0, **settings),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", list(MODELS))
def test_the_model_is_that_of_the_host(name, n_classes, device):
    if n_classes > 2 and name == "ecm":
        pytest.skip("ECM is for two classes")
    X, y = rows(1500, n_classes)
    one = MODELS[name]().fit(X, y)
    other = MODELS[name](device=device, precision="float64").fit(X, y)
    assert_allclose(other.bound_, one.bound_, rtol=1e-6)
    assert isinstance(other.bound_, float)
    assert_allclose(other.predict_proba(X[:100]), one.predict_proba(X[:100]), atol=1e-3)
    single = MODELS[name](device=device).fit(X, y)
    assert_allclose(single.bound_, one.bound_, rtol=1e-3)
    assert_allclose(single.predict_proba(X[:100]), one.predict_proba(X[:100]), atol=1e-2)


@pytest.mark.parametrize("name", ["svc", "gpc"])
def test_smooth_kernels_of_few_columns_lose_nothing_in_single_precision(name, device):
    """Points that see nearly the same leave over nothing but rounding, unless they are factored for it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = X[:, 0] + 0.3 * X[:, 1] ** 2 + rng.logistic(size=1500) > 0
    settings = {"kernel": 10.0 * RBF(8.0), "tune": None}
    one, other = (MODELS[name](**settings | more).fit(X, y) for more in ({}, {"device": device}))
    _, variance = other.latent_mean_and_variance(X)
    assert variance.min() > 1e-4
    # Jitter is part of the kernel, and larger in single precision: a hundredth of a probability, where most rows are.
    assert_allclose(other.predict_proba(X)[:, 1].mean(), one.predict_proba(X)[:, 1].mean(), atol=0.002)
    assert np.abs(other.predict_proba(X) - one.predict_proba(X)).mean() < 0.01


@pytest.mark.parametrize("name", ["svc", "linear"])
def test_large_tables_wander_there_too(name, device, monkeypatch):
    monkeypatch.setattr("softmargin.inference.LARGE", 5000)
    X, y = rows(6000)
    one = MODELS[name]().fit(X, y)
    other = MODELS[name](device=device, precision="float64").fit(X, y)
    assert one.stop_reason_ == other.stop_reason_
    # Minibatches of a kernel's features are summed in single precision, by each library in an order of its own.
    assert_allclose(other.bound_, one.bound_, rtol=1e-6 if name == "svc" else 1e-9)


def test_rows_that_do_not_fit_are_sent(device, monkeypatch):
    monkeypatch.setattr(Place, "room", property(lambda self: 1e4))
    monkeypatch.setattr("softmargin.devices.MOST_ROWS", 1000)
    monkeypatch.setattr("softmargin.inference.LARGE", 5000)
    X, y = rows(6000)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 6000)
    settings = {"kernel": 3 * RBF((1.0, 1.0, 1.0)), "tune": None, "tol": 1e-9, "inference": "cavi", "n_inducing": 20}
    one = BayesianSVC(random_state=0, **settings).fit(X, y, weight)
    other = BayesianSVC(random_state=0, device=device, precision="float64", **settings).fit(X, y, weight)
    assert_allclose(other.bound_, one.bound_, rtol=1e-8)


def problem_of(X, y, weight):
    rows_ = InducingRows.at(3 * RBF((1.0, 1.0, 1.0)), X[:15])
    return Problem(Table.of(X, y, weight, 15), rows_, Hinge(), Ridge.isotropic(15))


def test_sums_over_what_is_sent_are_those_over_what_is_there(device):
    X, y = rows(3000)
    y, weight = np.where(y == 1, 1.0, -1.0), np.random.default_rng(0).uniform(0.5, 1.5, 3000)
    problem, place = problem_of(X, y, weight), Place.of(device, "float64")
    belief = problem.prior.update(*problem.prior.start(X))
    wanted = problem.stats(belief)
    there, _ = placed(problem, weight, place)
    sent = replace(there, whole=Pinned.of(problem.table, place, 700))
    capped, unit = placed(problem, weight, place._replace(memory=1e3))
    assert isinstance(capped.whole, Pinned)
    assert len(unit) == capped.table.n_rows
    for stats in (there.stats(belief), capped.stats(belief), sent.stats(belief)):
        for got, want in zip(on_host(stats), wanted, strict=True):
            assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sources_are_sent(n_classes, device):
    X, y = rows(6000, n_classes)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 6000)
    batches = in_batches(X, y, 900, weight)
    one = BayesianSVC(n_inducing=20, random_state=0).fit(batches)
    other = BayesianSVC(n_inducing=20, random_state=0, device=device, precision="float64").fit(batches)
    assert_allclose(other.bound_, one.bound_, rtol=1e-6)
    assert_allclose(other.predict_proba(chunks.Arrays(X)), other.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_answers_come_back_where_the_question_came_from(n_classes, device):
    X, y = rows(800, n_classes)
    tensors = torch.as_tensor(X, device=device), torch.as_tensor(y, device=device)
    model = BayesianSVC(random_state=0).fit(*tensors)
    assert_allclose(model.bound_, BayesianSVC(random_state=0).fit(X, y).bound_, rtol=1e-6)
    assert isinstance(model.inducing_points_, np.ndarray)
    for method in ("predict", "predict_proba", "decision_function", "latent_mean_and_variance"):
        answers, wanted = getattr(model, method)(tensors[0]), getattr(model, method)(X)
        for answer, want in zip(*((a if isinstance(a, tuple) else (a,)) for a in (answers, wanted)), strict=True):
            assert isinstance(answer, torch.Tensor)
            assert answer.device.type == device
            assert_allclose(answer.cpu().numpy(), want, atol=1e-8)
    words = BayesianSVC(random_state=0).fit(tensors[0], np.array(["a", "b", "c"])[y])
    assert isinstance(words.predict(tensors[0]), np.ndarray)


def test_precision_is_a_choice(device):
    X, y = rows(500)
    model = BayesianSVC(precision="float32", random_state=0).fit(X, y)
    assert model.inducing_points_.dtype == np.float32
    before = torch.get_float32_matmul_precision()
    BayesianSVC(device=device, precision="tf32", random_state=0).fit(X, y)
    assert torch.get_float32_matmul_precision() == before
    assert Place.of(device, "tf32").short
    assert Place.of(device, "float64").dtype == torch.float64
    assert Place.of(device, "auto").dtype == torch.float32
    assert Place.of(None, "auto", torch.zeros(1, dtype=torch.float64)).dtype == torch.float64
    assert Place.of(None, "float64") is None


def test_errors_say_what_is_wrong(device):
    X, y = rows(100)
    for settings, words in (
        ({"precision": "half"}, "precision must be one of"),
        ({"precision": "tf32"}, "pass device='cuda'"),
        ({"device": "tpu"}, "device='tpu' cannot be used"),
        ({"device": device, "inference": "gibbs"}, "leave device as None"),
    ):
        with pytest.raises(ValueError, match=words):
            BayesianSVC(**settings).fit(X, y)
    with pytest.raises(ValueError, match="columns 0, 1 have missing values"):
        BayesianSVC(kernel="matern").fit(torch.full((4, 2), torch.nan, device=device), [0, 1, 0, 1])


def test_nested_tuples_come_home(device):
    there = torch.ones(3, device=device)
    assert_array_equal(on_host((there, (there, 5), "a"))[1][0], np.ones(3))


def test_what_a_device_cannot_do_is_done_elsewhere_or_said(device):
    X, y = rows(300)
    tensors = torch.as_tensor(X, device=device), torch.as_tensor(y, device=device)
    zeros = BayesianLinearSVC(prior="laplace-zero").fit(*tensors)
    assert_allclose(zeros.coef_, BayesianLinearSVC(prior="laplace-zero").fit(X, y).coef_, rtol=1e-6)
    with pytest.raises(ValueError, match="leave it as None"):
        BayesianLinearSVC(prior="laplace-zero", device=device).fit(X, y)
    half = BayesianSVC(random_state=0).fit(tensors[0].half(), y)
    assert half.score(X, y) > 0.8
