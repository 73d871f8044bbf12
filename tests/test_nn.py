"""Networks with a Bayesian head."""

import pickle
import socket
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.utils.estimator_checks import parametrize_with_checks

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from softmargin import BayesianSVC  # noqa: E402
from softmargin.active import query  # noqa: E402
from softmargin.adversarial import fgsm  # noqa: E402
from softmargin.gaussian import class_parts  # noqa: E402
from softmargin.likelihoods import Hinge, Rivals  # noqa: E402
from softmargin.monitor import InterruptedFitWarning  # noqa: E402
from softmargin.nn import (  # noqa: E402
    HybridClassifier,
    MarginHead,
    bayesianise,
    cifar_network,
    mnist_network,
    table_network,
)
from softmargin.nn.objective import expected_log_likelihood, units_of  # noqa: E402
from softmargin.nn.training import Labelled, Trainer, features_of  # noqa: E402
from softmargin.uncertainty import entropy, mutual_information, variation_ratio  # noqa: E402

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


# With a network ----------------------------------------------------------------------------------


def digits(n=900):
    X, y = load_digits(return_X_y=True)
    return X[:n].astype(np.float32), y[:n], X[n:].astype(np.float32), y[n:]


def test_a_loop_over_a_loader_trains(monkeypatch):
    X, y, X_test, y_test = digits()
    torch.manual_seed(0)
    network, head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)), MarginHead(8, 10, 40)
    rows = TensorDataset(torch.tensor(X), torch.tensor(y))
    head.fit(features_of(network, rows.tensors[0]), y)
    optimiser = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    for _ in range(6):
        for inputs, labels in DataLoader(rows, batch_size=64, shuffle=True):
            optimiser.zero_grad()
            head.loss(network(inputs), labels, len(rows)).backward()
            optimiser.step()
    head.eval().fit(features_of(network, rows.tensors[0]), y)
    proba = head.predict_proba(features_of(network, torch.tensor(X_test)))
    assert float((proba.argmax(1).numpy() == y_test).mean()) > 0.85


def test_a_first_step_does_not_take_features_out_of_sight():
    """Features of a fresh network hardly vary, and steps of its optimiser are long in their units."""
    X, y, *_ = digits(400)
    torch.manual_seed(0)
    network, head = mnist_network((1, 16, 16)), MarginHead(100, 10, 40)
    images = torch.tensor(np.kron(X.reshape(-1, 1, 8, 8), np.ones((2, 2), dtype=np.float32)) / 16)
    head.fit(features_of(network, images), y)
    optimiser, losses = torch.optim.Adam(network.parameters(), 1e-2), []
    for batch in torch.randperm(400, generator=torch.Generator().manual_seed(0)).repeat(4).split(100):
        optimiser.zero_grad()
        loss = head.loss(network(images[batch]), torch.tensor(y)[batch], 400)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-4:]) < 10  # where all is out of sight it is above 25, and no slope leads back
    assert all(torch.isfinite(p).all() for p in network.parameters())


def test_an_estimator_learns_images_and_tables():
    X, y, X_test, y_test = digits()
    model = HybridClassifier(epochs=10, n_inducing=40, device="cpu", random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.88
    assert len(model.history_) == model.n_iter_
    assert {"objective", "likelihood", "divergence", "log_loss", "accuracy", "seconds"} <= set(model.history_[0])
    again = clone(model).fit(X, y)
    assert_array_equal(again.predict_proba(X_test), model.predict_proba(X_test))
    read = pickle.loads(pickle.dumps(model))
    assert_array_equal(read.predict_proba(X_test), model.predict_proba(X_test))
    assert_array_equal(model.predict(X_test), model.classes_[model.predict_proba(X_test).argmax(axis=1)])


def test_queries_may_be_diverse():
    X, y, pool, _ = digits(200)
    model = HybridClassifier(epochs=2, n_inducing=20, random_state=0).fit(X, y)
    assert model.sample_latent(X[:5], 3, random_state=0).shape == (5, 10, 3)
    assert len(set(query(model, pool, n=4, diverse=True, random_state=0))) == 4


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([-1, 1])])
def test_two_classes_of_any_name(labels):
    X, y = make_moons(300, noise=0.2, random_state=0)
    model = HybridClassifier(epochs=15, batch_size=32, n_inducing=30, device="cpu", random_state=0).fit(X, labels[y])
    assert model.score(X, labels[y]) > 0.9
    assert model.decision_function(X).shape == (300,)
    assert variation_ratio(model, X).max() <= 0.5


def test_a_module_is_copied_and_a_function_is_called():
    X, y, *_ = digits(300)
    module = nn.Linear(64, 5)
    before = module.weight.detach().clone()
    model = HybridClassifier(module, epochs=1, n_inducing=20, device="cpu", random_state=0).fit(X, y)
    assert_array_equal(module.weight.detach().numpy(), before.numpy())
    assert model.head_.n_features == 5
    made = HybridClassifier(lambda shape: nn.Linear(shape[0], 3), epochs=1, n_inducing=20, random_state=0).fit(X, y)
    assert made.head_.n_features == 3


def test_any_optimiser_of_torch_will_do():
    X, y, *_ = digits(300)
    model = HybridClassifier(optimizer=torch.optim.SGD, epochs=1, n_inducing=20, device="cpu", random_state=0)
    assert isinstance(model.fit(X, y)._optimiser, torch.optim.SGD)


def test_batches_come_one_by_one():
    X, y, X_test, y_test = digits()
    model = HybridClassifier(batch_size=32, n_inducing=40, device="cpu", random_state=0)
    for _ in range(4):
        for part in np.array_split(np.arange(len(y)), 3):
            model.partial_fit(X[part], y[part], classes=np.arange(10))
    assert model.score(X_test, y_test) > 0.8
    with pytest.raises(ValueError, match=r"y holds \[17\]"):
        model.partial_fit(X[:2], [17, 1])


def test_an_interrupt_keeps_the_best_model(monkeypatch):
    X, y, *_ = digits(300)
    learn, count = Trainer.learn, []

    def interrupted(self):
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt
        return learn(self)

    monkeypatch.setattr(Trainer, "learn", interrupted)
    with pytest.warns(InterruptedFitWarning):
        model = HybridClassifier(n_inducing=20, device="cpu", random_state=0).fit(X, y)
    assert (model.stop_reason_, model.n_iter_) == ("interrupt", 2)
    assert np.isfinite(model.predict_proba(X)).all()


def test_time_and_patience_end_the_training():
    X, y, *_ = digits(300)
    settings = {"n_inducing": 20, "device": "cpu", "random_state": 0}
    short = HybridClassifier(max_time=1e-3, **settings).fit(X, y)
    assert (short.stop_reason_, short.n_iter_) == ("time", 1)
    still = HybridClassifier(learning_rate=1e-12, patience=2, epochs=30, **settings).fit(X, y)
    assert still.stop_reason_ == "patience"
    assert still.n_iter_ < 30


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": "vgg"}, "network"),
        ({"network": "cifar"}, "does not take rows of shape"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"epochs": 0}, "epochs"),
        ({"loss": "hing"}, "loss must be one of"),
        ({"multi_class": "crammer-singer"}, "multi_class must be one of"),
        ({"multi_class": "softmax"}, "goes with loss='logistic'"),
        ({"device": "gpu"}, "device='gpu'"),
        ({"network": lambda shape: nn.Unflatten(1, (8, 8))}, "row of features"),
    ],
)
def test_bad_parameters_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        HybridClassifier(**settings).fit(*digits(100)[:2])


def test_rows_of_another_shape_are_refused():
    X, y, *_ = digits(300)
    model = HybridClassifier(epochs=1, n_inducing=20, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="64"):
        model.predict(X[:, :10])
    with pytest.raises(ValueError, match=r"only one class: \[0.0\]"):
        HybridClassifier().fit(X, np.zeros(len(X)))


def test_missing_values_are_named_and_a_failed_fit_leaves_the_model():
    frame, species = load_iris(return_X_y=True, as_frame=True)
    model = HybridClassifier(epochs=1, n_inducing=20, device="cpu", random_state=0).fit(frame, species)
    before = model.predict_proba(frame)
    broken = frame.copy()
    broken.iloc[3, 1] = np.nan
    for call in (lambda: model.fit(broken, species), lambda: model.predict(broken)):
        with pytest.raises(ValueError, match=r"sepal width \(cm\)"):
            call()
    with pytest.raises(ValueError, match="two classes or more"):
        model.fit(frame.iloc[:, :2], np.zeros(150))
    assert_array_equal(model.predict_proba(frame), before)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()


def test_slopes_are_asked_for_without_a_warning_about_names():
    frame, species = load_iris(return_X_y=True, as_frame=True)
    model = HybridClassifier(epochs=1, n_inducing=20, device="cpu", random_state=0).fit(frame, species)
    assert fgsm(model, frame, species, eps=0.1).shape == (150, 4)


def test_slopes_in_the_inputs_are_those_of_finite_differences():
    X, y, *_ = digits(300)
    network = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 8))  # without kinks
    model = HybridClassifier(network, epochs=2, n_inducing=20, device="cpu", random_state=0).fit(X, y)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(2, 4, 10))
    found = model._latent_pullback(X[:4], *weights)
    for i, j in [(0, 10), (1, 20), (3, 43)]:
        values = []
        for sign in (1, -1):
            moved = X[:4].copy()
            moved[i, j] += sign * 0.05
            values.append(
                sum(np.sum(w * m) for w, m in zip(weights, model.latent_mean_and_variance(moved), strict=True))
            )
        assert_allclose(found[i, j], (values[0] - values[1]) / 0.1, rtol=0.02, atol=2e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([HybridClassifier(epochs=30, n_inducing=20, batch_size=16, device="cpu", random_state=0)])
def test_scikit_learn_check(estimator, check):
    check(estimator)


# After the fact ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    """A classifier without anything Bayesian about it."""
    X, y, X_test, y_test = digits()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
    )
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    rows = Labelled(torch.tensor(X), torch.tensor(y))
    for _ in range(15):
        for batch in rows.batches(64, torch.Generator().manual_seed(0)):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(batch.X), batch.y).backward()
            optimiser.step()
    return model, rows, X_test, y_test


def test_a_trained_classifier_gets_a_head_and_keeps_its_weights(trained):
    model, rows, X_test, y_test = trained
    before = {name: value.clone() for name, value in model.state_dict().items()}
    loader = DataLoader(TensorDataset(*rows), batch_size=100)
    held_out = [(torch.tensor(X_test[:300]), torch.tensor(y_test[:300]))]
    hybrid = bayesianise(model, loader, held_out=held_out, n_inducing=60)
    own = features_of(model, torch.tensor(X_test)).argmax(1).numpy()
    assert hybrid.score(X_test, y_test) >= np.mean(own == y_test) - 0.01
    assert model.training
    for name, value in model.state_dict().items():
        assert_array_equal(value.numpy(), before[name].numpy())
    noise = np.random.default_rng(0).uniform(0, 16, size=(200, 64)).astype(np.float32)
    assert variation_ratio(hybrid, 5 * noise).mean() > 3 * variation_ratio(hybrid, X_test).mean()


def test_the_layer_may_be_named(trained):
    model, rows, *_ = trained
    hybrid = bayesianise(model, [rows], layer="3", n_inducing=30)
    assert hybrid.head_.n_features == 64
    assert bayesianise(model, [rows], layer=model[5], n_inducing=30, max_rows=400).head_.n_features == 32
    with pytest.raises(ValueError, match="no layer 'last'"):
        bayesianise(model, [rows], layer="last")
    with pytest.raises(ValueError, match="no rows"):
        bayesianise(model, [])
    with pytest.raises(ValueError, match="no Linear layer"):
        bayesianise(nn.Conv2d(1, 1, 3), [rows])


def test_labels_may_be_named(trained):
    model, rows, *_ = trained
    names = np.array([f"digit {k}" for k in range(10)])
    hybrid = bayesianise(model, [rows], classes=names, n_inducing=30)
    assert hybrid.predict(rows.X[:3].numpy()).tolist() == names[rows.y[:3]].tolist()


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


# Networks ----------------------------------------------------------------------------------------


def test_networks_are_those_of_the_paper():
    def sizes(network):
        return [tuple(layer.weight.shape) for layer in network if hasattr(layer, "weight")]

    assert sizes(mnist_network()) == [(32, 1, 5, 5), (64, 32, 3, 3), (1024, 64 * 11 * 11), (100, 1024)]
    convolutions = [(128, 3, 3, 3), (128, 128, 3, 3), (128, 128, 3, 3)]
    assert sizes(cifar_network()) == [*convolutions, (256, 128 * 6 * 6), (100, 256)]
    assert table_network((5,))(torch.zeros(3, 5)).shape == (3, 64)
    with pytest.raises(ValueError, match="too small"):
        mnist_network((1, 4, 4))


def test_no_warnings_on_the_way():
    X, y, *_ = digits(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HybridClassifier(epochs=2, n_inducing=20, device="cpu", random_state=0).fit(X, y).predict_proba(X)
