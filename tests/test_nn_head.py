"""The Bayesian head of a network: its closed form, its loss, its minibatches, its processes."""

import socket

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from softmargin import BayesianSVC
from softmargin.gaussian import class_parts
from softmargin.likelihoods import Hinge, Rivals
from softmargin.nn import (
    HybridClassifier,
    MarginHead,
)
from softmargin.nn.objective import expected_log_likelihood, units_of
from softmargin.nn.training import features_of
from softmargin.uncertainty import entropy, mutual_information, variation_ratio

K, D = 4, 6


def blobs(n=300, k=K, d=D, seed=0, spread=1.0):
    """Features of classes that overlap, as a network would give them."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = 2 * rng.normal(size=(k, d))[y] + spread * rng.normal(size=(n, d))
    return torch.tensor(X, dtype=torch.float32), torch.tensor(y)


def fitted_head(k=K, n_inducing=20, **options):
    X, y = blobs(k=k)
    return MarginHead(D, k, n_inducing, **options).fit(X, y), X, y


# The head in closed form -------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_fitted_head_is_the_classifier_of_its_features(k):
    head, X, y = fitted_head(k)
    Z = (X.numpy() - head.center.numpy()) / head.spread.numpy()
    model = BayesianSVC(head.kernel, tune=None, n_inducing=20, random_state=0)
    model.partial_fit(Z, y.numpy(), classes=np.arange(k))
    mean, variance = head.eval()(X.double())
    expected = model.latent_mean_and_variance(Z)
    assert_allclose(mean.numpy(), expected[0], atol=1e-7)
    assert_allclose(variance.numpy(), expected[1], atol=1e-7)
    assert_allclose(head.predict_proba(X.double()).numpy(), model.predict_proba(Z), atol=1e-7)
    beliefs = class_parts(model.belief_)
    divergence = sum(0.5 * (np.sum(b.root**2) + b.mean @ b.mean - len(b.mean) - float(b.log_det)) for b in beliefs)
    assert_allclose(float(head.divergence()), divergence, rtol=1e-9)


def test_units_do_not_matter():
    X, y = blobs()
    one, other = (MarginHead(D, K, 20).fit(Z, y).eval() for Z in (X, 1000 * X - 7))
    assert_allclose(one.predict_proba(X).numpy(), other.predict_proba(1000 * X - 7).numpy(), atol=1e-3)


def test_a_sample_stands_for_all_rows():
    X, y = blobs()
    small, large = (MarginHead(D, K, 20).fit(X, y, n_total=n) for n in (None, 30 * len(y)))
    assert float(large.roots.pow(2).sum()) < 0.5 * float(small.roots.pow(2).sum())
    precision = torch.linalg.inv(small.roots.mT @ small.roots)
    assert_allclose(small.G.numpy(), (precision - torch.eye(20)).numpy(), rtol=1e-6, atol=1e-6)


def test_constant_and_repeated_features_are_no_trouble():
    X, y = blobs()
    X = torch.cat([X, X, torch.zeros(len(X), 2)], dim=1)
    head = MarginHead(2 * D + 2, K, 20).fit(X, y)
    assert torch.isfinite(head.loss(X, y, len(y)))
    assert float((head.eval().predict_proba(X).argmax(1) == y).double().mean()) > 0.8


def test_calibration_knows_that_held_out_rows_are_harder():
    X, y = blobs(spread=0.3)
    hard, labels = blobs(seed=0, spread=2.0)
    head = MarginHead(D, K, 20).fit(X, y).eval()
    before = head.predict_proba(hard)
    after = head.calibrate(hard, labels).predict_proba(hard)
    rows = torch.arange(len(labels))
    assert -after[rows, labels].log().mean() < -before[rows, labels].log().mean()


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (np.zeros((5, D + 1)), np.zeros(5), "shape"),
        (np.zeros((5, D)), np.zeros(4), "4 labels"),
        (np.full((5, D), np.nan), np.zeros(5), "Feature 0 .* diverged"),
        (np.zeros((5, D)), np.arange(5) + 1, "codes from 0 to 3"),
    ],
)
def test_bad_features_are_refused(features, labels, message):
    with pytest.raises(ValueError, match=message):
        MarginHead(D, K).fit(features, labels)


@pytest.mark.parametrize(
    "settings", [{"n_classes": 1}, {"n_inducing": 0}, {"rate": -1.0}, {"every": 0}, {"loss": "hing"}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        MarginHead(**({"n_features": D, "n_classes": K} | settings))


def test_a_head_without_points_says_what_to_do():
    with pytest.raises(RuntimeError, match="call fit"):
        MarginHead(D, K).loss(*blobs(), n_total=10)


# Its loss ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("loss", ["hinge", "hinge-augmented", "logistic-jj"])
def test_slopes_of_the_loss_are_those_of_finite_differences(k, loss):
    head, X, y = fitted_head(k, loss=loss)
    head.eval()
    x = X[:3].double().requires_grad_(True)
    head.loss(x, y[:3], 300).backward()
    for i, j in [(0, 0), (1, 3), (2, 5)]:
        step = torch.zeros_like(x.detach())
        step[i, j] = 1e-5
        high, low = (float(head.loss(x.detach() + sign * step, y[:3], 300)) for sign in (1, -1))
        assert_allclose(float(x.grad[i, j]), (high - low) / 2e-5, rtol=1e-4, atol=1e-7)


def test_slopes_flow_through_the_units_of_a_minibatch():
    head, X, y = fitted_head()
    x = X[:20].double().requires_grad_(True)
    head.train()
    head.every = 100
    head.loss(x, y[:20], 300).backward()
    assert_allclose(x.grad.sum(dim=0).numpy(), 0, atol=1e-8)  # a common shift changes nothing
    in_scale = (x.detach() * x.grad).sum(dim=0)
    assert_allclose(in_scale.numpy(), 0, atol=0.01 * float(x.grad.abs().max()))  # nor a common scale, but for the floor


def test_the_expected_log_likelihood_is_that_of_the_library():
    mean, variance = torch.randn(5, K).double(), torch.rand(5, K).double()
    labels = torch.tensor([0.0, 1, 2, 3, 0]).double()
    value, sites = expected_log_likelihood(mean, variance, labels, Rivals(Hinge()))
    exact = Rivals(Hinge()).sites(labels.numpy(), mean.numpy(), variance.numpy())
    assert_allclose(value.numpy(), exact.l, rtol=1e-12)
    assert_allclose(sites.b.numpy(), exact.b, rtol=1e-12)


def test_the_loss_of_all_rows_is_the_objective():
    X, y = blobs()
    head = MarginHead(D, K, 20).fit(X, y).eval()
    model = BayesianSVC(head.kernel, tune=None, n_inducing=20, random_state=0)
    model.partial_fit((X.numpy() - head.center.numpy()) / head.spread.numpy(), y.numpy(), classes=np.arange(K))
    assert_allclose(-len(y) * float(head.loss(X.double(), y, len(y))), model.bound_, rtol=1e-6)
    assert_allclose(head.terms.objective, model.bound_ / len(y), rtol=1e-6)


def test_training_steps_settle_at_the_closed_form():
    """Minibatches that are all rows: the belief goes to where `fit` finds it, and stays there."""
    head, X, y = fitted_head(rate=0.2, every=1)
    head.center, head.spread = units_of(X.double())
    objective = -float(head.eval().loss(X.double(), y, len(y)))
    head.G, head.h = torch.zeros_like(head.G), torch.zeros_like(head.h)
    head._believe()
    head.train()
    for _ in range(150):
        head.loss(X.double(), y, len(y))
    assert_allclose(-float(head.eval().loss(X.double(), y, len(y))), objective, atol=2e-3)


def test_evaluation_leaves_the_belief_alone():
    head, X, y = fitted_head()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    head.eval().loss(X, y, len(y))
    for name, value in head.state_dict().items():
        assert_array_equal(value.numpy(), before[name].numpy())


def test_a_warm_up_makes_rows_count_more():
    head = fitted_head()[0]
    size = float(head.roots.pow(2).sum())
    head.kl_weight = 0.1
    head._believe()
    assert float(head.roots.pow(2).sum()) < size


def test_state_dicts_come_back(tmp_path):
    head, X, _ = fitted_head()
    torch.save(head.state_dict(), tmp_path / "head.pt")
    other = MarginHead(D, K)
    other.load_state_dict(torch.load(tmp_path / "head.pt"))
    assert_array_equal(other.eval().predict_proba(X).numpy(), head.eval().predict_proba(X).numpy())
    assert other.kernel == head.kernel


@pytest.mark.parametrize("anew", ["load", "fit"])
def test_a_new_state_leaves_nothing_of_the_old_one(anew):
    """Recorded work is found by the identity of the kernel, which another kernel may have later."""
    head, X, y = fitted_head()
    state = fitted_head(n_inducing=10)[0].state_dict()
    head.train().loss(X, y, len(y))
    assert head._recorded
    assert head._pending is not None
    if anew == "load":
        head.load_state_dict(state)
    else:
        head.fit(X, y)
    assert not head._recorded
    assert (head._pending, head._n_pending, head._kl) == (None, 0, None)
    assert head._known[0] == (0, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_features_are_widened(dtype):
    head, X, y = fitted_head()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = head.loss(X.to(dtype).requires_grad_(True), y, len(y))
    assert loss.dtype == torch.float64
    assert torch.isfinite(loss)
    assert_allclose(head.eval().predict_proba(X.to(dtype)), head.predict_proba(X), atol=0.1)


def test_uncertainties_are_those_of_the_library():
    head, X, _ = fitted_head()
    network = nn.Identity()
    model = HybridClassifier(network, device="cpu")._made_of(network, head.eval(), np.arange(K), (D,))
    for measure, function in [
        ("variation_ratio", variation_ratio),
        ("entropy", entropy),
        ("mutual_information", mutual_information),
    ]:
        assert_allclose(head.uncertainty(X, measure).numpy(), function(model, X.numpy()), atol=1e-6)
    with pytest.raises(ValueError, match="measure"):
        head.uncertainty(X, "unknown")


@pytest.mark.parametrize("k", [2, 3])
def test_draws_have_the_moments_of_the_belief(k):
    """20,000 draws: their means are right to .7 % of a deviation, their variances to 1 %; six times that is allowed."""
    head, X, _ = fitted_head(k)
    X = torch.cat([X[:4], 30 * X[4:6], X[:1]]).double()  # among others, far away, and one of them twice
    mean, variance = (part.numpy() for part in head.eval()(X))
    draws = head.sample(X, 20_000, random_state=0)
    assert draws.shape == (*mean.shape, 20_000)
    assert_allclose(draws.mean(axis=-1), mean, atol=0.05 * np.sqrt(variance.max()))
    assert_allclose(draws.var(axis=-1), variance, rtol=0.06)
    assert_allclose(draws[0], draws[-1], atol=1e-4)  # the same row has the same value


def test_far_from_all_rows_the_head_is_unsure():
    head, X, _ = fitted_head()
    near, far = head.eval().uncertainty(X).mean(), head.uncertainty(X + 1000).mean()
    assert near < 0.2
    assert far > 0.5


# Processes ---------------------------------------------------------------------------------------


class WithLoss(nn.Module):
    """What `DistributedDataParallel` wants: a module whose forward pass is the loss."""

    def __init__(self, network, head, n_total):
        super().__init__()
        self.network, self.head, self.n_total = network, head, n_total

    def forward(self, X, y):
        return self.head.loss(self.network(X), y, self.n_total)


def one_process(rank, port, folder):
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    X, y = blobs()
    torch.manual_seed(0)
    network, head = nn.Linear(D, D), MarginHead(D, K, 20, every=1)
    head.fit(features_of(network, X), y)
    model = nn.parallel.DistributedDataParallel(WithLoss(network, head, len(y)))
    optimiser = torch.optim.SGD(network.parameters(), 0.01)
    for batch in torch.arange(len(y)).split(100):
        own = batch[rank::2]
        optimiser.zero_grad()
        model(X[own], y[own]).backward()
        optimiser.step()
    torch.save({"head": head.means, "weight": network.weight}, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_processes_that_share_the_work_share_the_belief(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(one_process, (port, str(tmp_path)), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    for name in first:
        assert_array_equal(first[name].detach().numpy(), second[name].detach().numpy())
