"""Networks with a Bayesian head."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from softmargin.active import query
from softmargin.adversarial import fgsm
from softmargin.monitor import InterruptedFitWarning
from softmargin.nn import (
    HybridClassifier,
    MarginHead,
    bayesianise,
    cifar_network,
    mnist_network,
    table_network,
)
from softmargin.nn.training import Labelled, Trainer, features_of
from softmargin.uncertainty import variation_ratio

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


def test_a_first_batch_that_is_not_representative_is_told():
    X, y, *_ = digits(300)
    for rows, words in ((np.flatnonzero(y == 3), "rows of a single class"), (np.arange(15), "has 15 rows")):
        model = HybridClassifier(n_inducing=10, device="cpu", random_state=0)
        with pytest.warns(UserWarning, match=words) as seen:
            model.partial_fit(X[rows], y[rows], classes=range(10))
        assert len(seen) == 1
        model.partial_fit(X[rows], y[rows])
    HybridClassifier(epochs=1, n_inducing=5, device="cpu").fit(X[:12], y[:12])


def test_a_batch_ends_its_progress_line(capsys):
    X, y, *_ = digits(300)
    HybridClassifier(n_inducing=20, device="cpu", verbose=True, random_state=0).partial_fit(X, y, classes=range(10))
    assert capsys.readouterr().err.endswith("\n")


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
        ({"network": "cifar"}, "does not accept rows of shape"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"epochs": 0}, "epochs"),
        ({"loss": "hing"}, "loss must be one of"),
        ({"multi_class": "crammer-singer"}, "multi_class must be one of"),
        ({"multi_class": "softmax"}, "requires loss='logistic'"),
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
@pytest.mark.filterwarnings("ignore:The first batch has")  # the checks stream few rows
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


def converted(rows, kind):
    """Rows of a loader in another form."""
    X, y = rows
    return {"double": (X.double(), y), "integers": (X.long(), y), "arrays": (X.numpy(), y.numpy())}[kind]


@pytest.mark.parametrize("kind", ["double", "integers", "arrays"])
@pytest.mark.parametrize("network", [torch.float32, torch.float64])
def test_rows_take_the_precision_of_the_network(trained, kind, network):
    model, rows, X_test, _ = trained
    plain = bayesianise(model, [rows], n_inducing=30)
    hybrid = bayesianise(copy.deepcopy(model).to(network), [converted(rows, kind)], n_inducing=30)
    given = X_test.astype(np.float64)
    assert_allclose(hybrid.predict_proba(given), plain.predict_proba(given), atol=1e-3)
    slopes = fgsm(hybrid, given[:5], eps=0.1)
    assert_allclose(slopes, fgsm(plain, given[:5], eps=0.1), rtol=1e-6)


def test_a_network_in_double_precision_is_trained_in_single():
    X, y, *_ = digits(200)
    network = nn.Sequential(nn.Linear(64, 8), nn.ReLU()).double()
    model = HybridClassifier(network, epochs=2, n_inducing=20, device="cpu", random_state=0).fit(X.astype(float), y)
    assert model.score(X, y) > 0.5
    assert network[0].weight.dtype == torch.float64


@pytest.mark.parametrize(
    ("label_of", "found"),
    [(lambda y: y - 1, "-1"), (lambda y: y / 2, "0.5"), (lambda y: y.numpy().astype(str), "'0'")],
)
def test_labels_that_are_no_codes_are_refused(trained, label_of, found):
    model, rows, *_ = trained
    with pytest.raises(
        ValueError, match=rf"from 0 to K - 1 for K classes, got .*{found}.*numpy\.unique\(labels, return"
    ):
        bayesianise(model, [(rows.X, label_of(rows.y))], n_inducing=30)
    with pytest.raises(ValueError, match=r"from 0 to 2, got -1 to 1.*numpy\.unique"):
        MarginHead(2, 3).fit(np.eye(2), np.array([-1, 1]))


@pytest.mark.parametrize("modes", [(True, True), (False, False), (True, False)])
def test_a_network_keeps_its_modes_through_fits_predictions_and_gradients(modes, rng):
    X, y = torch.as_tensor(rng.normal(size=(60, 3)).astype(np.float32)), torch.arange(60) % 2
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).train(modes[0])
    network[1].train(modes[1])  # as in fine-tuning, where batch normalisation alone stays as it is
    before = {part: part.training for part in network.modules()}
    hybrid = bayesianise(network, [(X, y)], n_inducing=5)
    for use in (hybrid.predict, hybrid.predict_proba, lambda X: fgsm(hybrid, X, eps=0.1)):
        use(X.numpy())
        assert {part: part.training for part in network.modules()} == before
    assert network[1].num_batches_tracked == 0


def test_batches_that_are_no_pairs_are_refused(trained):
    model, rows, *_ = trained
    with pytest.raises(ValueError, match=r"pairs of inputs and labels, got Tensor.*\[\(X, y\)\]"):
        bayesianise(model, (rows.X, rows.y))
    with pytest.raises(ValueError, match="pairs of inputs and labels, got dict"):
        bayesianise(model, [{"image": rows.X, "label": rows.y}])


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
