"""The kernel support vector machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..columns import Columns, describe
from ..inducing import choose_points, distinct_rows, most_points
from ..inference import INFERENCES
from ..kernels import RBF, Constant, Kernel, Matern, as_kernel
from ..likelihoods import LOSSES
from ..monitor import Monitor
from ..priors import Ridge
from ..rows import InducingRows
from ..tune import TUNINGS, Judges, LabelledRows, choose_kernel, moved_points
from ..validation import check_rows, one_of, positive_integer
from .base import Data, Found, Parts
from .partial import StreamingClassifier

KERNELS: dict[str, Any] = {"rbf": RBF, "matern": Matern}
PLACEMENTS = ("kmeans", "random", "mixture", "tuned")
#: Prior variances of the named kernels: of the function (benchmarks/defaults.py), and of an offset shared by all rows.
_VARIANCE, _OFFSET_VARIANCE = 10.0, 1.0
#: The variance that a tuned kernel is expected to have.
_EXPECTED_VARIANCE = 4.0


class BayesianSVC(StreamingClassifier):
    r"""A kernel support vector machine that tunes itself and knows how sure it is.

    The latent function is a Gaussian process, the labels meet it through the hinge loss, and the posterior is
    found on inducing points, in time linear in the number of rows.  Kernel parameters, a length-scale for each column
    included, are found first.  Probabilities come from the latent mean *and* variance through a link that is
    calibrated on leave-one-out predictions, which need no refit.  ``predict`` is always the class of larger
    ``predict_proba``.

    Parameters
    ----------
    kernel : {"rbf", "matern"}, or a kernel of `softmargin.kernels` or scikit-learn
        The words stand for ``10 * RBF() + Constant(1)`` (with 4 for 10 where it is only the start of tuning) and the
        same with ``Matern()``.  Length-scales of None are the spread of each column times the root of the
        number of columns.
        `sklearn.svm.SVC` writes ``gamma`` for :math:`1/(2\ell^2)` and ``C`` for twice the variance.
    loss : {"auto", "hinge", "hinge-augmented", "logistic", "logistic-jj", "logistic-taylor", "probit", "probit-taylor"}
        ``"hinge"``, which is ``"auto"`` here, takes the expectation of the hinge loss exactly; ``"hinge-augmented"`` is
        the bound of Wenzel et al. (2017), whose variances are too small.
    inference : {"auto", "cavi", "svi", "gibbs", "ecm", "batch"}
        ``"cavi"`` is coordinate ascent over all rows; ``"svi"`` natural-gradient steps on minibatches, whose ``bound_``
        is an estimate; ``"auto"`` takes the first below 50,000 rows (and where weights are very uneven), and above the
        second followed by one pass over all.  ``"gibbs"`` draws from the posterior (slow, and the referee of the
        others; for the hinge, and with ``pip install "softmargin[gibbs]"`` for the logistic loss) and ``"ecm"`` finds
        its mode (Henao et al. 2014; for the hinge).  ``"batch"`` is ``"cavi"`` with a
        point at every distinct row.
    tune : {"logistic", "bound", "bound-steps", "loo"} or None
        Who judges the kernel: the bound of the logistic loss, whatever ``loss`` is; the bound of ``loss`` itself, by
        L-BFGS or by the gradient steps of Wenzel et al. (2017); or the logistic bound, after which the
        leave-one-out log loss may tie the length-scales together or change the variances.  None holds the kernel
        as given.  Otherwise the given kernel is a start, and a single number stays a single number.
        Tables of more than 1,024 rows are judged by samples: of up to 2,048 rows, and of 8,192 from 50,000 on.
    n_inducing : int or "auto"
        How many inducing points; no more than there are distinct rows are ever used.
        ``"auto"`` takes as few rows as explain the others under the kernel, and at most 256 points, or 512 from
        50,000 rows on.
    inducing : {"kmeans", "random", "mixture", "tuned"} or array of shape (n_points, n_columns)
        Where the points go, when they are fewer than the distinct rows; or the points themselves.  ``"tuned"`` moves
        points from k-means to where the bound is highest.
    batch_size : int or "auto"
        Rows of a minibatch, for ``"svi"``.
    learning_rate : "adaptive" or (delay, power)
        Lengths of stochastic steps: those of Ranganath et al. (2013), or ``(t + delay) ** -power``.
    n_draws, n_chains, warm_up, thin : int
        Of ``"gibbs"``: draws to keep of each chain, chains, turns before the first draw (``"auto"``: a fifth of the
        others), and turns from one draw to the next.
    forgetting : float
        How much of the past each call of ``partial_fit`` displaces, from 0 to 1.
    link : {"loo", "probit", "logistic"}
        From latent to probability: calibrated on leave-one-out moments, or the plain links.
    class_weight : dict, "balanced" or None
        Factors of the rows' weights.  They change the population that probabilities refer to.
    tol : float
        The ascent ends when the bound has less than this share of itself still to gain, by the look of its last steps.
    max_iter : int
        Most passes over the data.
    max_time : float, optional
        Most seconds before the ascent ends with the best model so far; tuning may take half of them.
    n_jobs : int, optional
        Threads over blocks of rows: None is as many as BLAS may use, -1 all cores.
    verbose : bool
        Whether to draw a progress line.
    random_state : int, RandomState or None
        Seeds k-means, minibatches, draws, and the rows that judge kernels where there are more than enough.

    Attributes
    ----------
    classes_ : array of the two classes
    kernel_ : the kernel with every parameter filled in
    tune_history_ : list of a dict for each kernel that was judged, in order
    inducing_points_ : array of shape (n_points, n_columns)
    jitter_ : float, what the covariance of the points needed on its diagonal to be factored
    bound_ : float, the objective: the lower bound of the (pseudo-)likelihood less the divergence from the prior
    history_ : list of a dict for each pass (or look at the way of stochastic steps, or draw)
    n_iter_ : int, the length of ``history_``
    stop_reason_ : {"converged", "polished", "passes", "time", "interrupt", "stalled", "draws"}
        Why the inference ended; polished is a pass of stochastic steps and one over all rows, not run to rest.
    link_ : the fitted link
    loo_log_loss_ : float, the leave-one-out log loss on the training rows; None unless ``link="loo"``, and NaN where
        no row can be left out
    draws_ : the draws of ``inference="gibbs"``, None otherwise
    rows_, belief_ : the features and the posterior of their weights

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.predict_proba([[0.5, 0.25], [5.0, 5.0]]).shape
    (2, 2)
    """

    _INFERENCES = (*INFERENCES, "batch")

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        loss: str = "auto",
        inference: str = "auto",
        tune: str | None = "logistic",
        n_inducing: int | str = "auto",
        inducing: Any = "kmeans",
        batch_size: int | str = "auto",
        learning_rate: Any = "adaptive",
        n_draws: int = 1000,
        n_chains: int = 4,
        warm_up: int | str = "auto",
        thin: int = 1,
        forgetting: float = 0.0,
        link: str = "loo",
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = 200,
        max_time: float | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.inference = inference
        self.tune = tune
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.warm_up = warm_up
        self.thin = thin
        self.forgetting = forgetting
        self.link = link
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.tune is not None:
            one_of("tune", self.tune, (*TUNINGS, None))
        if self.tune in ("bound", "bound-steps") and not LOSSES[self._loss_for()].is_bound:
            raise ValueError(f"loss={self.loss!r} has no bound to tune by; use tune='logistic', 'loo' or None.")
        positive_integer("n_inducing", self.n_inducing, words=("auto",))
        if isinstance(self.inducing, str):
            one_of("inducing", self.inducing, PLACEMENTS)
        elif self.inference == "batch":
            raise ValueError("inference='batch' has its points at the rows; leave inducing as it is, or use 'cavi'.")
        self._kernel_as_given()

    def _parts(self, data: Data, rng: np.random.RandomState, monitor: Monitor, jobs: int = 1) -> Parts:
        columns = describe(data.X, data.weight).rounded()
        # In d columns rows lie about sqrt(2 d) spreads apart: this keeps them neither alike nor strangers.
        length_scale = np.sqrt(len(columns.spread)) * columns.spread
        kernel = self._kernel_as_given().with_length_scale(tuple(length_scale))
        judged = []
        moving = isinstance(self.inducing, str) and self.inducing == "tuned"
        most = most_points(data.X.shape[0], self.n_inducing)
        panels = Judges.panels(LabelledRows(*data[:4]), rng, most) if self.tune is not None or moving else []
        if self.tune is not None and len(np.unique(data.y)) == 2:  # a first batch of one class says nothing of kernels
            choice = choose_kernel(panels, kernel, columns, self.tune, LOSSES[self._loss_for()], monitor, jobs)
            kernel, judged = choice.kernel, choice.history
        points = self._points(data.X, data.weight, columns, kernel, rng)
        if moving:
            units = kernel.units(columns.spread)
            points = moved_points(panels[-1], kernel, points, LOSSES[self._loss_for()], units, monitor, jobs)
        rows = InducingRows.at(kernel, points)
        return Parts(rows, Ridge.isotropic(rows.n_weights), self._loss_for(), judged)

    def _keep(self, found: Found) -> None:
        super()._keep(found)
        assert isinstance(self.rows_, InducingRows)
        self.tune_history_ = found.parts.judged
        self.kernel_, self.inducing_points_, self.jitter_ = self.rows_.kernel, self.rows_.points, self.rows_.jitter

    def _kernel_as_given(self) -> Kernel:
        if not isinstance(self.kernel, str):
            return as_kernel(self.kernel)
        one_of("kernel", self.kernel, KERNELS)
        variance = _VARIANCE if self.tune is None else _EXPECTED_VARIANCE
        return variance * KERNELS[self.kernel]() + Constant(_OFFSET_VARIANCE)

    def _points(
        self, X: Any, weight: np.ndarray, columns: Columns, kernel: Kernel, rng: np.random.RandomState
    ) -> np.ndarray:
        if not isinstance(self.inducing, str):
            return self._given_points(X)
        if self.inference == "batch":
            every = distinct_rows(X, weight, at_most=X.shape[0])
            assert every is not None
            return every.rows
        return choose_points(X, weight, columns, kernel, self.n_inducing, self.inducing, rng)

    def _given_points(self, X: Any) -> np.ndarray:
        frame = hasattr(self.inducing, "columns")
        points = check_rows(self, self.inducing, reset=False) if frame else np.asarray(self.inducing)
        if points.ndim != 2 or points.shape[1] != X.shape[1] or len(points) == 0:
            raise ValueError(
                f"inducing must be one of {', '.join(map(repr, PLACEMENTS))}, or points of shape (n_points, "
                f"{X.shape[1]}) to match X; got an array of shape {points.shape}."
            )
        if not np.isfinite(points).all():
            raise ValueError("The points in inducing must be finite numbers.")
        return np.unique(points.astype(X.dtype), axis=0)
