"""Fitted models of every kind that a file has to hold, each with rows to ask it about."""

import io
import warnings
import zipfile

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris, make_moons
from sklearn.gaussian_process import kernels as sk

from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.kernels import RBF, Constant, Linear, Matern, White

KERNEL = 4.0 * RBF(0.7) + Constant(1.0)
CHAINS = {"inference": "gibbs", "n_draws": 6, "n_chains": 2, "random_state": 0}
PLAIN = {"kernel": KERNEL, "tune": None, "n_inducing": 12, "random_state": 0}
PARTICLES = {"kernel": KERNEL, "tune": None, "n_frequencies": 8, "random_state": 0}
STEIN = PARTICLES | {"inference": "stein", "n_particles": 4, "n_steps": 3}


def moons():
    X, y = make_moons(60, noise=0.25, random_state=0)
    return X, np.where(y > 0, "up", "down")


def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3, :2], y[::3]


def gaps():
    X, y = moons()
    X = np.column_stack([X, X[:, 0] - X[:, 1]])
    X[::5, 1] = np.nan
    return X, y


def wide():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 520))
    return X, X[:, 0] > 0


def clinics():
    """A frame of numbers, categories, nested wards and crossed doctors."""
    rng, n = np.random.default_rng(0), 120
    clinic, ward = rng.integers(0, 4, n), rng.integers(0, 2, n)
    frame = pd.DataFrame({"age": rng.normal(50, 10, n), "dose": rng.normal(size=n)})
    frame["sex"] = pd.Categorical(rng.choice(["f", "m", "x"], n))
    frame["city"] = rng.choice(["Bern", "Zug", "Ulm"], n)
    frame["clinic"], frame["doctor"], frame["ward"] = [f"c{code}" for code in clinic], rng.integers(0, 3, n), ward
    f = 0.1 * (frame["age"] - 50) + frame["dose"] + rng.normal(size=4)[clinic] + rng.logistic(size=n)
    frame["state"] = np.where(f > 0, "ill", "well")
    frame["grade"] = np.digitize(f, [-0.5, 0.5])
    return frame


def holes(frame):
    frame = frame.copy()
    frame.loc[frame.index % 6 == 0, "age"] = np.nan
    return frame


def _svc(table=moons, cls=BayesianSVC, **settings):
    X, y = table()
    return cls(**(PLAIN | settings)).fit(X, y), X


def _linear(table=moons, **settings):
    X, y = table()
    return BayesianLinearSVC(random_state=0, **settings).fit(X, y), X


def _mixed(formula=None, change=None, y="state", columns=None, **settings):
    frame = clinics() if change is None else change(clinics())
    X = frame if columns is None else frame[columns]
    return BayesianMixedSVC(formula=formula, random_state=0, **settings).fit(X, frame[y]), X


def _machine(table=moons, **settings):
    X, y = table()
    return BayesianKernelMachine(**(STEIN | settings)).fit(X, y), X


def _in_batches(model, table=moons):
    X, y = table()
    for rows in (slice(0, 30), slice(30, None)):
        model.partial_fit(X[rows], y[rows], classes=np.unique(y))
    return model, X


def _frame():
    X, y = moons()
    frame = pd.DataFrame(X.astype(np.float32), columns=["left", "right"])
    return BayesianSVC(**PLAIN).fit(frame, y == "up"), frame


_SK = (
    2.0 * sk.Matern(0.5, nu=1.5) + sk.WhiteKernel(0.1) + sk.ConstantKernel(1.0) * sk.RBF([0.5, 0.7]) * sk.DotProduct(0)
)
_ALL = ["age", "dose", "sex", "city", "clinic"]

MODELS = {
    "svc": _svc,
    "svc tuned": lambda: _svc(kernel="matern", tune="logistic", n_inducing=8),
    "svc three classes": lambda: _svc(iris),
    "svc crammer-singer": lambda: _svc(iris, multi_class="crammer-singer"),
    "svc svi": lambda: _svc(inference="svi", batch_size=16, max_iter=3),
    "svc adam": lambda: _svc(inference="adam", batch_size=16, max_iter=3),
    "svc ecm": lambda: _svc(inference="ecm", loss="hinge-augmented"),
    "svc batch": lambda: _svc(inference="batch"),
    "svc gibbs": lambda: _svc(**CHAINS),
    "svc kernels": lambda: _svc(kernel=2 * RBF((0.5, 0.7)) * Linear() + Matern(0.9, nu=0.8) + White(0.1) * Constant(2)),
    "svc scikit-learn's kernels": lambda: _svc(kernel=_SK),
    "svc points": lambda: _svc(inducing=moons()[0][:9], link="probit", class_weight={"up": 2.0, "down": 1}),
    "svc frame": _frame,
    "svc batches": lambda: _in_batches(BayesianSVC(**PLAIN)),
    "svc batches of three": lambda: _in_batches(BayesianSVC(**PLAIN, forgetting=0.1), iris),
    "linear": _linear,
    "linear logistic": lambda: _linear(loss="logistic", link="logistic"),
    "linear prior": lambda: _linear(prior=[2.0, 0.5], fit_intercept=False),
    "linear three classes": lambda: _linear(iris),
    "linear zeros": lambda: _linear(prior="laplace-zero"),
    "linear gaps": lambda: _linear(gaps),
    "linear gaps and zeros": lambda: _linear(gaps, prior="laplace-zero"),
    "linear gibbs": lambda: _linear(
        gaps, prior="laplace-zero", **{k: v for k, v in CHAINS.items() if k != "random_state"}
    ),
    "linear wide": lambda: _linear(wide),
    "linear batches": lambda: _in_batches(BayesianLinearSVC(random_state=np.random.RandomState(3))),
    "mixed plain": lambda: _mixed(columns=["age", "dose"]),
    "mixed formula": lambda: _mixed(
        "state ~ center(age) + C(doctor)*dose + sex + s(age, df=5) + np.log(age + 99) + (dose|clinic/ward) + (1|city)"
    ),
    "mixed splines": lambda: _mixed("state ~ bs(age, df=5) + scale(dose) + I(dose**2) + S(city) + (0 + age||clinic)"),
    "mixed groups": lambda: _mixed(
        groups={"clinic": ["dose"], "doctor": []}, splines={"age": 5}, columns=[*_ALL, "doctor"]
    ),
    "mixed crossed": lambda: _mixed("~ age + (1|clinic) + (1|doctor)"),
    "mixed nested": lambda: _mixed(groups=["clinic", ("clinic", "ward")], columns=[*_ALL, "ward"]),
    "mixed gaps": lambda: _mixed("~ age + dose + sex + (1|clinic)", holes),
    "mixed three classes": lambda: _mixed("grade ~ age + sex + s(dose, df=4) + (1|clinic)", y="grade"),
    "mixed three classes with gaps": lambda: _mixed("~ age + dose + (1|clinic)", holes, y="grade"),
    "mixed zeros": lambda: _mixed("~ age + dose + sex + (1|clinic)", prior="laplace-zero"),
    "mixed gibbs": lambda: _mixed(
        "~ age + dose + (1 + dose|clinic)", inference="gibbs", n_draws=6, n_chains=2, warm_up=2
    ),
    "gpc": lambda: _svc(cls=BayesianGPC),
    "gpc jj alternate": lambda: _svc(cls=BayesianGPC, loss="jj", tune="alternate", n_inducing=8),
    "gpc taylor": lambda: _svc(cls=BayesianGPC, loss="taylor"),
    "gpc softmax": lambda: _svc(iris, BayesianGPC, multi_class="softmax"),
    "gpc gibbs": lambda: _svc(cls=BayesianGPC, **CHAINS),
    "machine": _machine,
    "machine three classes": lambda: _machine(iris),
    "machine cavi": lambda: _machine(inference="cavi"),
    "machine batches": lambda: _in_batches(BayesianKernelMachine(**STEIN)),
    "machine cavi batches": lambda: _in_batches(BayesianKernelMachine(**PARTICLES, inference="cavi")),
    "machine tuned": lambda: _machine(tune="logistic"),
}


def fitted(name):
    """The model of that name, and rows to ask it about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[name]()


def small_model():
    """A model whose file is small, and some rows."""
    X, y = moons()
    return BayesianLinearSVC(random_state=0, link="probit").fit(X, y), X


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}
