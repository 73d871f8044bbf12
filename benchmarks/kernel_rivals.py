"""The kernel machines that Nguyen et al. (2018) compare with, behind ``fit`` and ``predict``, for many classes.

The kernel is theirs, k(x, z) = exp(-1/2 sum_j gamma_j (x_j - z_j)^2).  `RKS` holds gamma fixed; `FKL` and `RRF` learn
one gamma for each column by gradients; `MultiRRF` combines several `RRF` that start from different gamma; `BSGD` keeps
a budget of points.

Their settings are searched as in the paper, on a smaller grid and with one split instead of five folds: the models are
fitted to four fifths of at most ``search_rows`` random rows, and the accuracy on the last fifth decides (the first of
equals).  The paper's grids, and what is left of them here or added to them:

==============  =============================  =============================================================
setting         the paper's                    here
==============  =============================  =============================================================
gamma           2^-5, 2^-3, ..., 2^15          2^-7, 2^-4, 2^-1, 2^2, 2^5, 2^8 (`RKS`, `BSGD`)
first gamma     2^-15, 2^-11, ..., 2^5         2^-7, 2^-3, 2, 2^5 (`FKL`, `RRF`)
step            1e-7, 1e-5, 1e-3, 1e-1         .1, 1 (`RKS`) and .03, .3 (`FKL`, `RRF`)
lambda          2^-15, ..., 2^5 (RKS, BSGD)    2^-20, 2^-15 (`RKS`) and 2^-18, 2^-15, 2^-12 (`BSGD`)
lambda          1e-3 (FKL, RRF)                2^-20, 2^-15 (`FKL`, `RRF`)
==============  =============================  =============================================================

Steps are Adam's and shrink linearly to zero: with ten epochs, smaller ones do not arrive.  lambda = 1e-3 is too large
where the objective contains the mean loss (see `Fourier`): with it, `RKS` on 5,000 rows of ijcnn1 always predicts the
larger class, with an accuracy of .901 against .988; `RRF` has .980 against .984, and `FKL` .976 against .988.

After ``fit``, ``search_seconds_`` and ``fit_seconds_`` are the two parts of the time, as the paper reports them, and
``best_`` the settings chosen.  Rows are float32, loops are over batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import log_softmax
from sklearn.model_selection import ParameterGrid

#: Rows predicted at a time.
BLOCK = 4096
#: Of a column's frequencies; a diverging search must not overflow.
MOST_LOG_SCALE = 8.0


class _Model(Protocol):
    def scores(self, X: np.ndarray) -> np.ndarray: ...


def in_blocks(model: _Model, X: Any) -> np.ndarray:
    """The scores of all rows and classes."""
    X = np.asarray(X, dtype=np.float32)
    return np.concatenate([model.scores(X[start : start + BLOCK]) for start in range(0, len(X), BLOCK)])


def batches(n: int, size: int, epochs: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Indices of about ``size`` rows at a time; every epoch has all rows in a new order."""
    for _ in range(epochs):
        yield from np.array_split(rng.permutation(n), -(-n // size))


@dataclass
class Searched:
    """What the rivals share: a search in their grid, the fit with what it found, the seconds of each."""

    gammas: tuple[float, ...]
    penalties: tuple[float, ...]
    search_rows: int = 10_000
    seed: int = 0

    def _grid(self) -> dict[str, tuple[float, ...]]:
        return {"gamma": self.gammas, "penalty": self.penalties}

    def _train(self, X: np.ndarray, codes: np.ndarray, n_classes: int, setting: dict[str, float]) -> _Model:
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Any:
        X = np.asarray(X, dtype=np.float32)
        self.classes_, codes = np.unique(y, return_inverse=True)
        start = time.perf_counter()
        self.best_ = self._search(X, codes)
        found = time.perf_counter()
        self.model_ = self._train(X, codes, len(self.classes_), self.best_)
        self.search_seconds_, self.fit_seconds_ = found - start, time.perf_counter() - found
        return self

    def _search(self, X: np.ndarray, codes: np.ndarray) -> dict[str, float]:
        settings = list(ParameterGrid(dict(self._grid())))
        if len(settings) == 1:
            return settings[0]
        rows = np.random.default_rng(self.seed).permutation(len(codes))[: self.search_rows]
        test, train = np.split(rows, [len(rows) // 5])
        accuracies = []
        for setting in settings:
            model = self._train(X[train], codes[train], len(self.classes_), setting)
            accuracies.append(np.mean(in_blocks(model, X[test]).argmax(axis=1) == codes[test]))
        return settings[int(np.argmax(accuracies))]

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[in_blocks(self.model_, X).argmax(axis=1)]


class Fourier(NamedTuple):
    """Scores phi(x)' W + b, where the angles are a_i = sum_j exp(log_scale_j) e_ji x_j, exp(log_scale) = sqrt(gamma).

    phi = [cos a_i, sin a_i] / sqrt(D) with ``phases`` None, and otherwise sqrt(2/D) cos(a_i + phase_i).

    The objective is lambda/2 |W|^2 + the mean of -log softmax.  As phi has length 1 and the mean is over N rows, a
    support vector machine's C is 1 / (lambda N): for 50,000 rows lambda = 1e-3 is C = .02, and 2^-20 is C = 21.
    The offset b, which the paper has not, is for classes of unequal size.
    """

    frequencies: np.ndarray
    phases: np.ndarray | None
    weights: np.ndarray
    offset: np.ndarray
    log_scales: np.ndarray

    def waves(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angles = (X * np.exp(self.log_scales)) @ self.frequencies
        if self.phases is not None:
            angles += self.phases
        return np.cos(angles), np.sin(angles)

    def features(self, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        size = np.float32(self.weights.shape[0] / 2) ** -0.5
        return size * (np.concatenate([cos, sin], axis=1) if self.phases is None else cos)

    def scores(self, X: np.ndarray) -> np.ndarray:
        return self.features(*self.waves(X)) @ self.weights + self.offset

    def objective(self, X: np.ndarray, codes: np.ndarray, penalty: float) -> float:
        rows = np.arange(len(codes))
        return float(penalty / 2 * np.sum(self.weights**2) - log_softmax(self.scores(X), axis=1)[rows, codes].mean())

    def slopes(self, X: np.ndarray, codes: np.ndarray, penalty: float, learn_gamma: bool) -> list[np.ndarray]:
        """Of the objective, in the weights, the offset and, if they are learned, the log-scales."""
        cos, sin = self.waves(X)
        phi = self.features(cos, sin)
        wrong = np.exp(log_softmax(phi @ self.weights + self.offset, axis=1))
        wrong[np.arange(len(codes)), codes] -= 1
        wrong /= len(codes)
        found = [phi.T @ wrong + penalty * self.weights, wrong.sum(axis=0)]
        if learn_gamma:
            back = np.float32(self.weights.shape[0] / 2) ** -0.5 * (wrong @ self.weights.T)
            D = cos.shape[1]
            in_angles = -sin * back if self.phases is not None else cos * back[:, D:] - sin * back[:, :D]
            found.append(np.sum((X.T @ in_angles) * self.frequencies, axis=1) * np.exp(self.log_scales))
        return found


class _Adam:
    """Kingma and Ba's steps (b1 = .9, b2 = .999), made in place."""

    def __init__(self, parameters: list[np.ndarray]) -> None:
        self.parameters = parameters
        self.first = [np.zeros_like(p) for p in parameters]
        self.second = [np.zeros_like(p) for p in parameters]
        self.count = 0

    def step(self, slopes: list[np.ndarray], rates: tuple[float, ...]) -> None:
        self.count += 1
        size = (1 - 0.999**self.count) ** 0.5 / (1 - 0.9**self.count)
        for p, m, v, slope, rate in zip(self.parameters, self.first, self.second, slopes, rates, strict=False):
            m += 0.1 * (slope - m)
            v += 0.001 * (slope**2 - v)
            p -= rate * size * m / (np.sqrt(v) + 1e-8)


@dataclass
class _FourierRival(Searched):
    """Fourier features and cross-entropy, by Adam.

    A frequency's pair of waves counts as two weights, and so do two frequencies with phases: the rivals have the same
    number of weights for each class, 2 ``n_frequencies``.  The log-scales move a tenth as fast as the weights.
    """

    gammas: tuple[float, ...] = (2.0**-7, 2.0**-3, 2.0, 2.0**5)
    penalties: tuple[float, ...] = (2.0**-20, 2.0**-15)
    rates: tuple[float, ...] = (0.03, 0.3)
    n_frequencies: int = 512
    epochs: int = 10
    batch_size: int = 200

    learns_gamma: ClassVar[bool] = True
    has_phases: ClassVar[bool] = False

    def _grid(self) -> dict[str, tuple[float, ...]]:
        return {"gamma": self.gammas, "penalty": self.penalties, "rate": self.rates}

    def _first(self, n_columns: int, n_classes: int, gamma: float, rng: np.random.Generator) -> Fourier:
        n_waves = (2 if self.has_phases else 1) * self.n_frequencies
        frequencies = rng.standard_normal((n_columns, n_waves), dtype=np.float32)
        phases = rng.uniform(0, 2 * np.pi, n_waves).astype(np.float32) if self.has_phases else None
        weights = np.zeros((2 * self.n_frequencies, n_classes), dtype=np.float32)
        log_scales = np.full(n_columns, 0.5 * np.log(gamma), dtype=np.float32)
        return Fourier(frequencies, phases, weights, np.zeros(n_classes, dtype=np.float32), log_scales)

    def _train(self, X: np.ndarray, codes: np.ndarray, n_classes: int, setting: dict[str, float]) -> Fourier:
        rng = np.random.default_rng(self.seed)
        model = self._first(X.shape[1], n_classes, setting["gamma"], rng)
        adam = _Adam([model.weights, model.offset, model.log_scales])
        last = self.epochs * -(-len(codes) // self.batch_size)
        for done, batch in enumerate(batches(len(codes), self.batch_size, self.epochs, rng)):
            slopes = model.slopes(X[batch], codes[batch], setting["penalty"], self.learns_gamma)
            rate = setting["rate"] * (1 - done / last)
            adam.step(slopes, (rate, rate, 0.1 * rate))
            np.clip(model.log_scales, -MOST_LOG_SCALE, MOST_LOG_SCALE, out=model.log_scales)
        return model

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.exp(log_softmax(in_blocks(self.model_, X).astype(float), axis=1))


@dataclass
class RKS(_FourierRival):
    """Random kitchen sinks (Rahimi and Recht 2008): pairs of waves, gamma from the grid."""

    gammas: tuple[float, ...] = (2.0**-7, 2.0**-4, 2.0**-1, 2.0**2, 2.0**5, 2.0**8)
    rates: tuple[float, ...] = (0.1, 1.0)
    learns_gamma: ClassVar[bool] = False


@dataclass
class FKL(_FourierRival):
    """Fourier kernel learning (Bazavan et al. 2012): cos(w'x + phase), w = sqrt(gamma) e, gamma learned.

    Their w is the inverse distribution function of a uniform number; for this kernel that is sqrt(gamma) e.
    """

    has_phases: ClassVar[bool] = True


@dataclass
class RRF(_FourierRival):
    """Reparameterised random features (Nguyen et al. 2017): pairs of waves, w = sqrt(gamma) e, gamma learned."""


@dataclass
class MultiRRF(Searched):
    """Several `RRF`, from first gammas spread over the range of its grid: mean probabilities, or the most votes.

    Step and lambda are those that `RRF` finds.  The paper does not say what is averaged: weights of models with
    different gammas have no common meaning, so it is probabilities here.
    """

    gammas: tuple[float, ...] = RRF.gammas
    penalties: tuple[float, ...] = RRF.penalties
    rates: tuple[float, ...] = RRF.rates
    average: bool = True
    n_models: int = 10
    n_frequencies: int = RRF.n_frequencies
    epochs: int = RRF.epochs
    batch_size: int = RRF.batch_size

    def _one(self) -> RRF:
        shared = ("gammas", "penalties", "rates", "search_rows", "seed", "n_frequencies", "epochs", "batch_size")
        return RRF(**{name: getattr(self, name) for name in shared})

    def _search(self, X: np.ndarray, codes: np.ndarray) -> dict[str, float]:
        one = self._one()
        one.classes_ = self.classes_
        return one._search(X, codes)

    def _train(self, X: np.ndarray, codes: np.ndarray, n_classes: int, setting: dict[str, float]) -> _Ensemble:
        firsts = np.geomspace(min(self.gammas), max(self.gammas), self.n_models)
        models = []
        for index, gamma in enumerate(firsts.tolist()):
            one = replace(self._one(), seed=self.seed + 1000 * index)
            models.append(one._train(X, codes, n_classes, {**setting, "gamma": gamma}))
        return _Ensemble(models, self.average)


class _Ensemble(NamedTuple):
    """Mean probabilities, or shares of the votes; of classes with equal votes the more probable wins."""

    models: list[Fourier]
    average: bool

    def scores(self, X: np.ndarray) -> np.ndarray:
        p = np.exp(log_softmax(np.stack([model.scores(X) for model in self.models]), axis=2))
        if self.average:
            return p.mean(axis=0)
        votes = p.argmax(axis=2)[:, :, None] == np.arange(p.shape[2])
        return votes.mean(axis=0) + p.mean(axis=0) / (len(self.models) + 1)


class Points(NamedTuple):
    """Scores sum_i k(x, z_i) a_i: the points z, and a coefficient for each class."""

    points: np.ndarray
    coefficients: np.ndarray
    gamma: float

    def scores(self, X: np.ndarray) -> np.ndarray:
        return np.exp(log_kernel(X, self.points, self.gamma)) @ self.coefficients


def log_kernel(X: np.ndarray, Z: np.ndarray, gamma: float) -> np.ndarray:
    """-gamma/2 |x - z|^2, at most 0."""
    squares = np.sum(X**2, axis=1)[:, None] + np.sum(Z**2, axis=1) - 2 * (X @ Z.T)
    return -gamma / 2 * np.maximum(squares, 0)


@dataclass
class BSGD(Searched):
    """Budgeted stochastic gradient descent with merging (Wang et al. 2012), the hinge of Crammer and Singer.

    Pegasos: w <- (1 - 1/t) w + 1/(lambda t) times the mean over the batch of phi(x) (e_y - e_rival), of rows with a
    margin below 1.  Points beyond the budget are merged, all of a batch at once: each of the smallest with another.
    """

    gammas: tuple[float, ...] = RKS.gammas
    penalties: tuple[float, ...] = (2.0**-18, 2.0**-15, 2.0**-12)
    budget: int = 200
    epochs: int = 5
    batch_size: int = 20

    def _train(self, X: np.ndarray, codes: np.ndarray, n_classes: int, setting: dict[str, float]) -> Points:
        if self.batch_size > self.budget:
            raise ValueError(f"batch_size={self.batch_size} is more than budget={self.budget}")
        gamma, penalty = setting["gamma"], setting["penalty"]
        rng = np.random.default_rng(self.seed)
        none = np.zeros((0, X.shape[1]), dtype=np.float32)
        model = Points(none, np.zeros((0, n_classes), dtype=np.float32), gamma)
        for index, batch in enumerate(batches(len(codes), self.batch_size, self.epochs, rng)):
            rows, some = np.arange(len(batch)), X[batch]
            own, f = codes[batch], model.scores(some)
            margins = f[rows, own]
            f[rows, own] = -np.inf
            rivals = f.argmax(axis=1)
            late = margins - f[rows, rivals] < 1
            added = np.zeros_like(f)
            added[rows, own], added[rows, rivals] = 1.0, -1.0
            added *= 1 / (penalty * (index + 1) * len(batch))
            model = Points(
                np.concatenate([model.points, some[late]]),
                np.concatenate([index / (index + 1) * model.coefficients, added[late]]),
                gamma,
            )
            if len(model.points) > self.budget:
                model = merged(model, self.budget)
        return model


def lost(h: np.ndarray | float, log_k: np.ndarray, aa: np.ndarray, bb: np.ndarray, ab: np.ndarray) -> np.ndarray:
    """|a phi(x) + b phi(z) - c phi(h x + (1 - h) z)|^2 at the best c, the one of `merged`.

    It is a'a + b'b + 2 k a'b - c'c, k = k(x, z), c = k^((1-h)^2) a + k^(h^2) b.
    """
    x, z = np.exp((1 - h) ** 2 * log_k), np.exp(h**2 * log_k)
    return aa * (1 - x**2) + bb * (1 - z**2) + 2 * ab * (np.exp(log_k) - x * z)


def merged(model: Points, budget: int) -> Points:
    """As many points as the budget: those with the smallest coefficients each become one with another point.

    Partners are those of the least sum of `lost`, each taken once, at the better of h = |a| / (|a| + |b|) and h = 0
    (which drops the smaller point); h itself is then searched, as Wang et al. do, by golden section.
    """
    excess = len(model.points) - budget
    small, others = np.split(np.argsort(np.linalg.norm(model.coefficients, axis=1)), [excess])
    a, b = model.coefficients[small], model.coefficients[others]
    log_k = log_kernel(model.points[small], model.points[others], model.gamma)
    aa, bb, ab = np.sum(a**2, axis=1)[:, None], np.sum(b**2, axis=1), a @ b.T
    share = np.sqrt(aa) / np.maximum(np.sqrt(aa) + np.sqrt(bb), 1e-30)
    costs = np.minimum(lost(share, log_k, aa, bb, ab), lost(0.0, log_k, aa, bb, ab))
    first, second = linear_sum_assignment(costs)
    pairs = log_k[first, second], aa[first, 0], bb[second], ab[first, second]
    h = _least_lost(pairs)[:, None]
    near, far = np.exp((1 - h) ** 2 * pairs[0][:, None]), np.exp(h**2 * pairs[0][:, None])
    points, coefficients = model.points[others], b.copy()
    points[second] = h * model.points[small[first]] + (1 - h) * points[second]
    coefficients[second] = near * a[first] + far * b[second]
    return Points(points, coefficients, model.gamma)


def _least_lost(pairs: tuple[np.ndarray, ...], n_start: int = 11, n_steps: int = 12) -> np.ndarray:
    """For each pair the h in [0, 1] that loses least: of a few, for far points have two minima; then golden section."""
    grid = np.linspace(0, 1, n_start, dtype=np.float32)
    start = grid[lost(grid, *(each[:, None] for each in pairs)).argmin(axis=1)]
    low, high = np.maximum(start - grid[1], 0), np.minimum(start + grid[1], 1)
    golden = np.float32((5**0.5 - 1) / 2)
    for _ in range(n_steps):
        left, right = high - golden * (high - low), low + golden * (high - low)
        to_left = lost(left, *pairs) < lost(right, *pairs)
        low, high = np.where(to_left, low, left), np.where(to_left, right, high)
    return (low + high) / 2


#: The paper's rivals by its names for them; LIBSVM is scikit-learn's `SVC`.
RIVALS = {"RKS": RKS, "BSGD": BSGD, "FKL": FKL, "RRF": RRF}
