"""Claim: by default, `BayesianOneClassSVM` detects unusual rows no worse than its rivals, with the right alarm rate.

In each table the rows of one class are the usual ones: 60 % of them, 800 at most, are fitted, and rows of all other
classes are to be found among the rest; once with the largest class as the usual one, and once with the next.  Rivals
are `OneClassSVM`, `IsolationForest` and `LocalOutlierFactor`, with default settings.  ``alarms`` is the share of new
usual rows that are called unusual, where a tenth is asked for (``nu`` or ``contamination`` of the rivals).

The basis of the choice is shown as well, by length-scales in units of sqrt(d), with columns in units of their standard
deviation: areas under the curve of the mean and of the standard deviation of the function, and of `OneClassSVM` with
the same kernel.  The ``objective`` could not have chosen among these: it is largest for the smoothest function,
whatever is unusual.

Length-scale and score were chosen on the first half of the tables; the second judges.

    python benchmarks/one_class.py --data PATH [--quick]
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from common import arguments, print_table, report, standardised
from pmlb import halves, load_table, table_names
from softmargin import BayesianOneClassSVM
from softmargin.kernels import RBF

MOST, MOST_NEW, FURTHEST, QUICK = 800, 400, 20.0, 3
SHARES, VARIANCE, RATE = (0.25, 0.5, 1.0), 4.0, 0.1
#: Alarms may be off by so much, on average over tables.
OFF = 0.03
OURS = "BayesianOneClassSVM()"
RIVALS = {
    "OneClassSVM()": (OneClassSVM(), OneClassSVM(nu=RATE)),
    "IsolationForest()": (
        IsolationForest(random_state=0),
        IsolationForest(contamination=RATE, random_state=0),
    ),
    "LocalOutlierFactor()": (
        LocalOutlierFactor(novelty=True),
        LocalOutlierFactor(novelty=True, contamination=RATE),
    ),
}


def scores(usual: np.ndarray, new: np.ndarray, strange: np.ndarray) -> dict[str, float]:
    """Areas under the curve, rates of alarms, and objectives."""
    tested, found = np.vstack([new, strange]), {}
    is_usual = np.arange(len(tested)) < len(new)

    def area(score: np.ndarray) -> float:
        return float(roc_auc_score(is_usual, score))

    ours = BayesianOneClassSVM(false_alarm_rate=RATE, random_state=0).fit(usual)
    found |= {OURS: area(ours.score_samples(tested)), f"alarms {OURS}": float(np.mean(ours.predict(new) < 0))}
    for name, (plain, rated) in RIVALS.items():
        found[name] = area(plain.fit(usual).decision_function(tested))
        found[f"alarms {name}"] = float(np.mean(rated.fit(usual).predict(new) < 0))
    for share in SHARES:
        length_scale = share * np.sqrt(usual.shape[1])
        kernel = VARIANCE * RBF(length_scale=(length_scale,) * usual.shape[1])
        ours = BayesianOneClassSVM(kernel, false_alarm_rate=RATE, random_state=0).fit(usual)
        mu, v = ours.latent_mean_and_variance(tested)
        same = OneClassSVM(gamma=0.5 / length_scale**2, nu=RATE).fit(usual)
        found |= {f"mean {share}": area(mu), f"deviation {share}": area(-v), f"objective {share}": ours.machine_.bound_}
        found[f"OneClassSVM {share}"] = area(same.decision_function(tested))
        found[f"alarms, ours {share}"] = float(np.mean(ours.predict(new) < 0))
        found[f"alarms, OneClassSVM {share}"] = float(np.mean(same.predict(new) < 0))
    return found


def of_table(folder: Path, name: str) -> dict[str, float]:
    """The mean over the two largest classes, each as the usual one."""
    X, y = load_table(folder, name)
    total: dict[str, float] = defaultdict(float)
    for place in (0, 1):
        rng = np.random.default_rng(place)
        usual = np.argsort(-np.bincount(y), kind="stable")[place]
        own, others = (rng.permutation(np.flatnonzero(part)) for part in (y == usual, y != usual))
        n = min(int(0.6 * len(own)), MOST)
        fit, new, strange = X[own[:n]], X[own[n : n + MOST_NEW]], X[others[:MOST_NEW]]
        parts = (np.clip(standardised(part, fit), -FURTHEST, FURTHEST) for part in (fit, new, strange))
        for key, value in scores(*parts).items():
            total[key] += value / 2
    return total


def mean(tables: list[dict[str, float]], key: str) -> float:
    return float(np.mean([each[key] for each in tables]))


def main() -> None:
    args = arguments(__doc__)
    warnings.simplefilter("ignore")
    chosen_on, judged_on = (
        [of_table(args.data, name) for name in names[: QUICK if args.quick else None]]
        for names in halves(table_names(args.data)).values()
    )
    every, models = chosen_on + judged_on, [OURS, *RIVALS]
    print_table(
        ["area under the curve", "chosen on", "judged on", f"alarms of {RATE:g}, all"],
        [[m, f"{mean(chosen_on, m):.4f}", f"{mean(judged_on, m):.4f}", mean(every, f"alarms {m}")] for m in models],
    )
    print()
    whats = ("mean", "deviation", "OneClassSVM", "objective", "alarms, ours", "alarms, OneClassSVM")
    print_table(
        ["all tables, by length-scale", *map(str, SHARES)],
        [[what, *(mean(every, f"{what} {share}") for share in SHARES)] for what in whats],
    )
    largest = [int(np.argmax([each[f"objective {share}"] for share in SHARES])) for each in every]
    print(f"tables whose objective is largest there: {np.bincount(largest, minlength=len(SHARES)).tolist()}\n")
    best = max(RIVALS, key=lambda name: mean(judged_on, name))
    gain = np.array([each[OURS] - each[best] for each in judged_on])
    value = {
        "best rival": best,
        "area above it": round(float(gain.mean()), 4),
        "standard error": round(float(gain.std(ddof=1) / np.sqrt(len(gain))), 4),
        "alarms": round(mean(judged_on, f"alarms {OURS}"), 3),
    }
    met = value["area above it"] >= 0 and abs(value["alarms"] - RATE) <= OFF
    report("one_class", value, {"area above it": 0, "alarms": [round(RATE - OFF, 2), round(RATE + OFF, 2)]}, met)


if __name__ == "__main__":
    main()
