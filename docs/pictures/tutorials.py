"""Makes the pictures of the tutorials, and prints the figures that stand in their text.

Run ``python docs/pictures/tutorials.py`` in the root of the repository; names of single pictures may follow.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.active import query
from softmargin.adversarial import AdversarialDetector, fgsm
from softmargin.comparison import calibrated_svc
from softmargin.evaluation import evaluate, log_losses
from softmargin.nn import bayesianise
from softmargin.plot import DetectionDisplay, InclusionDisplay, ReliabilityDisplay
from softmargin.uncertainty import entropy, mutual_information

HERE = Path(__file__).parent
BLUE, FAINT = "#3b7fb8", "#8d9096"


def two_axes():
    """A figure with two axes side by side."""
    return plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")


def saved(figure, name: str) -> None:
    """Writes a picture."""
    figure.savefig(HERE / f"tutorial_{name}.png", dpi=110)
    plt.close(figure)


def handed_over(ax, doubt: np.ndarray, wrong: np.ndarray) -> None:
    """The error among rows that are kept, as the most doubtful leave."""
    share = np.linspace(0, 0.5, 51)
    order = np.argsort(doubt)
    kept = [wrong[order[: round((1 - s) * len(wrong))]].mean() for s in share]
    ax.plot(100 * share, kept, color=BLUE, label="the most doubtful first")
    ax.axhline(wrong.mean(), color=FAINT, linestyle="--", label="at random, on average")
    ax.set(xlabel="handed over (%)", ylabel="error among those that are kept", ylim=(0, 1.2 * wrong.mean()))
    ax.legend(frameon=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def svc() -> None:
    """Reliability, and what handing over is worth, on the breast cancer table."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    malignant = (y == 0).to_numpy()
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    p = cross_val_predict(BayesianSVC(random_state=0), X, malignant, cv=folds, method="predict_proba")[:, 1]
    figure, (left, right) = two_axes()
    ReliabilityDisplay.from_predictions(malignant, p, name="BayesianSVC", ax=left)
    handed_over(right, -np.abs(p - 0.5), (p > 0.5) != malignant)
    saved(figure, "svc")

    label = y.map({0: "malignant", 1: "benign"})
    X_fit, X_test, y_fit, y_test = train_test_split(X, label, test_size=0.5, random_state=0, stratify=label)
    repeated(X, label)
    model = BayesianSVC(random_state=0).fit(X_fit, y_fit)
    proba = model.predict_proba(X_test)
    for name, estimate in evaluate(y_test, proba, classes=model.classes_, random_state=0).measures.items():
        print(f"svc: {name} {estimate.value:.3f}, {estimate.low:.3f} to {estimate.high:.3f}")
    other = calibrated_svc().fit(X_fit, y_fit)
    losses = [log_losses(y_test, each.predict_proba(X_test), each.classes_) for each in (model, other)]
    gap = losses[0] - losses[1]
    half, correlation = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap)), np.corrcoef(losses)[0, 1]
    print(f"svc: less than SVC by {-gap.mean():.3f}, {-gap.mean() - half:.3f} to {-gap.mean() + half:.3f}")
    print(f"svc: half-width {half:.3f}, correlation of losses {correlation:.2f}")
    elsewhere = 10 * X_test[:50]
    usual, strange = mutual_information(model, X_test), mutual_information(model, elsewhere)
    print(f"svc: ten times as large: information {strange.min() / usual.mean():.0f} times the mean, ", end="")
    print(f"p {model.predict_proba(elsewhere)[0, 1]:.2f}, SVC {other.predict_proba(elsewhere)[0, 1]:.2f}")
    ill, p = (y_test == "malignant").to_numpy(), proba[:, 1]
    for threshold in (0.5, 1 / 21):
        missed, in_vain = np.sum(ill & (p <= threshold)), np.sum(~ill & (p > threshold))
        print(f"svc: above {threshold:.3f}: {missed} missed, {in_vain} in vain")
    wrong, doubt = (model.predict(X_test) != y_test).to_numpy(), entropy(model, X_test)
    kept = doubt <= np.quantile(doubt, 0.9)
    print(
        f"svc: {wrong.sum()} errors, {wrong[~kept].sum()} of them handed over; {wrong[kept].mean():.3f} of those kept"
    )


def repeated(X: pd.DataFrame, y: pd.Series) -> None:
    """Ours beside calibrated SVCs, on five halves of the table."""
    grid = GridSearchCV(SVC(), {"C": [0.1, 1, 10, 100], "gamma": ["scale", 0.003, 0.01, 0.03]})
    models = {
        "SVC, grid": make_pipeline(StandardScaler(), CalibratedClassifierCV(grid, ensemble=False)),
        "SVC": make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False)),
        "BayesianSVC": BayesianSVC(random_state=0),
    }
    halves = StratifiedShuffleSplit(5, test_size=0.5, random_state=0)
    for name, model in models.items():
        losses = -cross_val_score(model, X, y, cv=halves, scoring="neg_log_loss")
        print(f"svc: {name}: mean log loss {losses.mean():.3f}, {losses.min():.3f} to {losses.max():.3f}")


MEASURES = "bill_length_mm + bill_depth_mm + flipper_length_mm + body_mass_g"


def cross_validated(formula: str, birds: pd.DataFrame, n_folds: int, **options) -> tuple[float, float]:
    """Log loss and error of a formula on the penguins, means over folds."""
    losses, errors = [], []
    for fit, test in StratifiedKFold(n_folds, shuffle=True, random_state=0).split(birds, birds["sex"]):
        model = BayesianMixedSVC(formula, **options).fit(birds.iloc[fit])
        rest = birds.iloc[test]
        losses.append(log_loss(rest["sex"], model.predict_proba(rest)))
        errors.append(np.mean(model.predict(rest) != rest["sex"]))
    return float(np.mean(losses)), float(np.mean(errors))


def penguins() -> None:
    """The figures of groups and gaps."""
    birds = pd.read_csv(HERE.parents[1] / "examples" / "penguins.csv").dropna(subset=["sex"]).reset_index(drop=True)
    birds["colony"] = birds["species"] + ", " + birds["island"]
    for term, loss in (("", "logistic"), (" + (1 | colony)", "logistic"), (" + (1 | colony)", "auto")):
        print(
            "tables: {!r}, {}: log loss {:.3f}, error {:.3f}".format(
                term, loss, *cross_validated(f"sex ~ {MEASURES}{term}", birds, 5, loss=loss)
            )
        )
    nested = f"sex ~ {MEASURES} + (1 | species/colony)"
    for inference in ("cavi", "gibbs"):
        model = BayesianMixedSVC(
            f"sex ~ {MEASURES} + (1 | species)", loss="logistic", inference=inference, n_draws=500, random_state=0
        )
        print(f"tables: variance of species, {inference}: {model.fit(birds).variance_components_['species'][0, 0]:.0f}")
    for colony in birds["colony"].unique():
        rest, new = birds[birds["colony"] != colony], birds[birds["colony"] == colony]
        models = [BayesianMixedSVC(formula, loss="logistic").fit(rest) for formula in (nested, f"sex ~ {MEASURES}")]
        told = [
            f"{log_loss(new['sex'], m.predict_proba(new)):.2f}, accuracy {m.score(new, new['sex']):.2f}" for m in models
        ]
        print(f"tables: without {colony}: nested {told[0]}; alike {told[1]}")
    gaps(birds)


def gaps(birds: pd.DataFrame) -> None:
    """What a broken scale costs."""
    formula = f"sex ~ {MEASURES} + (1 | species)"
    holes = birds.copy()
    gone = holes["year"] == 2008
    holes.loc[gone, "body_mass_g"] = np.nan
    median = holes.fillna({"body_mass_g": holes["body_mass_g"].median()})
    without = formula.replace(" + body_mass_g", "")
    for name, form, table in (
        ("there", formula, birds),
        ("modelled", formula, holes),
        ("median", formula, median),
        ("left out", without, birds),
    ):
        print(f"tables: mass {name}: log loss {cross_validated(form, table, 10)[0]:.3f}")
    model = BayesianMixedSVC(formula).fit(holes)
    column = list(model.fixed_names_).index("body_mass_g")
    mean, sd = (part[gone, column] for part in model.impute(holes))
    off = mean - birds["body_mass_g"][gone]
    covered, spread = np.mean(off.abs() < 1.645 * sd), birds["body_mass_g"].std()
    print(f"tables: imputed masses: {off.abs().median():.0f} g off, {covered:.0%} covered, spread {spread:.0f} g")
    print(f"tables: too high by {off.groupby(birds['species'][gone]).mean().round().to_dict()}")


def tables() -> None:
    """Inclusion probabilities of a variational belief, and of draws; and the figures of groups and gaps."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    rng = np.random.default_rng(0)
    wide = X.filter(like="mean").assign(**{f"noise {i}": rng.normal(size=len(X)) for i in range(40)})
    figure, axes = two_axes()
    kinds = {"variational belief": {}, "draws (Gibbs)": {"inference": "gibbs", "n_draws": 2000, "warm_up": 1000}}
    for ax, (title, options) in zip(axes, kinds.items(), strict=True):
        model = BayesianLinearSVC(prior="laplace-zero", rho=0.1, loss="logistic", random_state=0, **options)
        model.fit(wide[:300], y[:300])
        InclusionDisplay.from_estimator(model, top=12, ax=ax)
        ax.set_title(title)
        probability = pd.Series(model.inclusion_probability_, wide.columns).sort_values(ascending=False)
        loss = log_loss(y[300:], model.predict_proba(wide[300:]))
        print(f"tables: {title}: {probability[:9].round(2).to_dict()}; log loss {loss:.3f}")
        if model.draws_ is not None:
            print(f"tables: R-hat {model.draws_.r_hat:.3f}, worth {model.draws_.n_effective:.0f}")
    saved(figure, "tables")
    ridge = BayesianLinearSVC().fit(wide[:300], y[:300])
    print(f"tables: ridge: log loss {log_loss(y[300:], ridge.predict_proba(wide[300:])):.3f}")
    for loss in ("logistic", "hinge"):
        for rho in (0.1, 0.2, 0.5):
            chosen = BayesianLinearSVC(prior="laplace-zero", rho=rho, loss=loss).fit(wide[:300], y[:300])
            noise = np.sum(chosen.inclusion_probability_[10:] > 0.5)
            print(f"tables: {loss}, rho {rho}: {noise} columns of noise")
    penguins()


def digits():
    """The network of the tutorial, trained; images, labels, its logits, and strange images."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    inputs, codes = torch.tensor(pixels), torch.tensor(labels)
    torch.manual_seed(0)
    widths = (64, 64, 32, 10)
    layers = [part for a, b in pairwise(widths) for part in (torch.nn.Linear(a, b), torch.nn.ReLU())][:-1]
    network = torch.nn.Sequential(*layers)
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(150):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs[:800]), codes[:800]).backward()
        optimiser.step()

    def logits(images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(torch.tensor(np.ascontiguousarray(images))).numpy().astype(float)

    images = pixels[1200:]
    strange = {
        "upside down": images.reshape(-1, 8, 8)[:, ::-1, ::-1].reshape(-1, 64),
        "pixels shuffled": images[:, np.random.default_rng(0).permutation(64)],
        "negative": 1 - images,
        "ten times as bright": 10 * images,
    }
    return network, pixels, labels, logits, strange


def entropies(logits: np.ndarray) -> np.ndarray:
    """Of the softmax of logits."""
    p = softmax(logits, axis=1)
    return -np.sum(p * np.log(np.maximum(p, 1e-300)), axis=1)


def networks() -> None:
    """Strange images, noticed by a softmax and by a Bayesian head; and the figures of that tutorial."""
    network, pixels, labels, logits, strange = digits()
    inputs, codes = torch.tensor(pixels), torch.tensor(labels)
    images, truth, held = pixels[1200:], labels[1200:], slice(800, 1200)
    alone = bayesianise(network, [(inputs[held], codes[held])], n_inducing=100)
    hybrid = bayesianise(network, [(inputs[:800], codes[:800])], held_out=[(inputs[held], codes[held])], n_inducing=100)

    def scaled_loss(temperature: float) -> float:
        return log_loss(labels[held], softmax(logits(pixels[held]) / temperature, axis=1))

    temperature = minimize_scalar(scaled_loss, bounds=(0.2, 10), method="bounded").x
    said = {
        "softmax": softmax(logits(images), axis=1),
        "softmax, scaled": softmax(logits(images) / temperature, axis=1),
        "head, held out alone": alone.predict_proba(images),
        "head": hybrid.predict_proba(images),
    }
    for name, proba in said.items():
        print(f"networks: {name}: {log_loss(truth, proba):.3f}, {np.mean(proba.argmax(axis=1) == truth):.3f}")
    figure, (left, right) = two_axes()
    for name, them in strange.items():
        by_softmax = DetectionDisplay.from_scores(
            entropies(logits(images)), entropies(logits(them)), name=name, ax=left
        )
        ordinary, odd = (mutual_information(hybrid, part) for part in (images, them))
        by_head = DetectionDisplay.from_scores(ordinary, odd, name=name, ax=right)
        sure = softmax(logits(them), axis=1).max(axis=1).mean()
        print(f"networks: {name}: area {by_softmax.auc:.2f}, {by_head.auc:.2f}; softmax says {sure:.3f}")
    left.set_title("by the entropy of the softmax")
    right.set_title("by the mutual information of the head")
    saved(figure, "networks")
    labelling(network, pixels, labels)
    attacks(hybrid, pixels, labels)


def labelling(network, pixels: np.ndarray, labels: np.ndarray) -> None:
    """What labels that are asked for are worth."""
    inputs, codes = torch.tensor(pixels), torch.tensor(labels)
    first, pool, rest = np.arange(800, 860), np.arange(1200, 1600), np.arange(1600, len(labels))

    def score(rows: np.ndarray) -> float:
        return head(rows).score(pixels[rest], labels[rest])

    def head(rows: np.ndarray):
        return bayesianise(network, [(inputs[rows], codes[rows])], n_inducing=100)

    chosen = pool[query(head(first), pixels[pool], n=60, strategy="variation_ratio", random_state=0)]
    drawn = [np.random.default_rng(seed).choice(pool, 60, replace=False) for seed in range(20)]
    by_chance = [score(np.concatenate([first, rows])) for rows in drawn]
    asked = score(np.concatenate([first, chosen]))
    print(
        f"networks: accuracy {score(first):.3f}, asked {asked:.3f}, at random {np.mean(by_chance):.3f} "
        f"({min(by_chance):.3f} to {max(by_chance):.3f})"
    )


def attacks(hybrid, pixels: np.ndarray, labels: np.ndarray) -> None:
    """What attacks do, and who notices."""
    images, truth = pixels[1200:], labels[1200:]
    detector = AdversarialDetector(hybrid, measure="mutual_information", false_alarm_rate=0.05).fit(pixels[800:1200])
    for eps in (0.0, 0.05, 0.1, 0.2):
        attacked = fgsm(hybrid, images, truth, eps=eps, clip=(0, 1)) if eps else images
        accuracy, alarms = hybrid.score(attacked, truth), detector.predict(attacked).mean()
        print(f"networks: attack {eps}: accuracy {accuracy:.3f}, alarms {alarms:.3f}")


PICTURES = {"svc": svc, "tables": tables, "networks": networks}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or PICTURES:
        PICTURES[chosen]()
