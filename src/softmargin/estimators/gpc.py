"""The Gaussian process classifier."""

from __future__ import annotations

from typing import Any

from ..inference import DRAWABLE, INFERENCES
from ..likelihoods import MULTI_CLASS, Likelihood, Loss, likelihood_of
from ..parameters import positive_integer
from ..tune import JOINT_TUNINGS, QUADRATIC_TUNINGS, Rounds
from .kernel import KernelClassifier

#: The words of ``loss=`` here, and those of the library.
LOGISTIC_LOSSES = {"quadrature": "logistic", "jj": "logistic-jj", "taylor": "logistic-taylor"}
#: Losses that are quadratics, by the words of ``tune=`` that need them.
_QUADRATICS = {how: ("jj",) if how in JOINT_TUNINGS else ("jj", "taylor") for how in QUADRATIC_TUNINGS}
_FEWEST_EVALUATIONS = 2


class BayesianGPC(KernelClassifier):
    r"""A Gaussian process classifier on inducing points, with a logistic likelihood.

    It is `BayesianSVC` with a true likelihood in place of the hinge: the same kernels, inducing points, inference,
    links and methods, and the same way with missing entries.  What Izmailov and Kropotov (2017) compare are
    combinations of ``loss`` and ``tune``:

    ============  =============  ====================
    method        ``loss``       ``tune``
    ============  =============  ====================
    svi           "quadrature"   "bound" (by L-BFGS)
    vi-JJ         "jj"           "alternate"
    vi-JJ-full    "jj"           "full"
    vi-JJ-hybrid  "jj"           "hybrid"
    vi-Taylor     "taylor"       "alternate"
    ============  =============  ====================

    Parameters
    ----------
    kernel : {"rbf", "matern"}, or a kernel of `softmargin.kernels` or scikit-learn
        The words stand for ``10 * RBF() + Constant(1)`` (with 4 for 10 where it is only the start of tuning) and the
        same with ``Matern()``.  Length-scales of None are the spread of each column times the root of the
        number of columns.
    loss : {"quadrature", "jj", "taylor"}, or a likelihood
        How the expectation of the logistic log-likelihood is taken: by Gauss-Hermite quadrature (Hensman et al. 2015);
        from Jaakkola and Jordan's quadratic lower bound, which needs no guard, but whose variances are too small; or
        from a Taylor expansion about the mean, which is no bound: ``bound_`` then is an approximation, and the belief
        that of Laplace.  `BayesianSVC` has the same under the names in ``loss_``.  Or a likelihood, as there.
    inference : {"auto", "cavi", "svi", "adam", "gibbs", "batch"}
        As in `BayesianSVC`.  ``"gibbs"`` draws Polya-Gamma variables, the same for ``"quadrature"`` and ``"jj"``, and
        needs ``pip install "softmargin[gibbs]"``.
    tune : {"logistic", "bound", "loo", "alternate", "hybrid", "full"} or None
        How the kernel is found.  ``"logistic"`` judges by the bound of quadrature, whatever ``loss`` is, with the
        belief settled at every kernel; ``"bound"`` by that of ``loss`` itself; after ``"loo"`` the leave-one-out log
        loss may tie the length-scales together or change the variances.  For ``"jj"`` and ``"taylor"``, which are
        quadratics, ``"alternate"`` takes turns: ``n_upd`` updates of the belief and of each row's quadratic, then at
        most ``n_fun`` evaluations of L-BFGS over the kernel with the quadratics held.  For ``"jj"``, ``"hybrid"``
        moves the quadratics in the second half of each turn too, and ``"full"`` moves both by L-BFGS throughout.  None
        holds the kernel as given.  Otherwise the given kernel is a start, and a single number stays a single number.
        Tables of more than 1,024 rows are judged by samples: of up to 2,048 rows, and of 8,192 from 50,000 on (from
        4,096, where there are more than two classes).
    multi_class : {"auto", "softmax", "one-vs-each", "ovr"}
        How more than two classes meet: in the bound of the softmax (``"auto"`` for ``loss="quadrature"``, and for no
        other); as the product over rivals of the logistic function of the difference, which bounds the softmax
        (``"auto"`` for the others); or not at all, each against the rest (``"auto"`` and the only way where ``tune``
        is ``"alternate"``, ``"hybrid"`` or ``"full"``).
    n_upd, n_fun : int
        Of a turn of ``"alternate"`` and ``"hybrid"``: updates, and most evaluations, the first of which is where the
        turn begins.  ``"full"`` begins and ends with ``n_upd`` updates.
    n_inducing : int or "auto"
        How many inducing points; no more than there are distinct rows are ever used.
        ``"auto"`` takes as few rows as explain the others under the kernel, and at most 256 points, or 512 from
        50,000 rows on.
    inducing : {"kmeans", "random", "mixture", "tuned"} or array of shape (n_points, n_columns)
        Where the points go, when they are fewer than the distinct rows; or the points themselves.  ``"tuned"`` moves
        points from k-means to where the bound is highest.
    batch_size : int or "auto"
        Rows of a minibatch, for ``"svi"`` and ``"adam"``.
    learning_rate : "adaptive" or (delay, power)
        Lengths of stochastic steps: those of Ranganath et al. (2013), or ``(t + delay) ** -power``.
    n_draws, n_chains, warm_up, thin : int
        Of ``"gibbs"``: draws to keep of each chain, chains, turns before the first draw (``"auto"``: a fifth of the
        others), and turns from one draw to the next.
    forgetting : float
        How much of the past each call of ``partial_fit`` displaces, from 0 to 1.
    link : {"loo", "probit", "logistic"}
        From latent to probability: calibrated on leave-one-out moments, or the plain links.  ``"logistic"`` is that of
        the likelihood itself, and differs little.
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
    device, precision, checkpoint
        As in `BayesianSVC`.
    verbose : bool
        Whether to draw a progress line.
    random_state : int, RandomState or None
        Seeds k-means, minibatches, draws, and the rows that judge kernels where there are more than enough.

    Attributes
    ----------
    classes_ : array of the classes
    loss_ : {"logistic", "logistic-jj", "logistic-taylor"}, the loss by the library's name; or the likelihood given
    kernel_ : the kernel with every parameter filled in
    tune_history_ : list of a dict for each kernel that was judged, in order; of ``"alternate"`` and ``"hybrid"``, for
        the first half of each turn
    inducing_points_ : array of shape (n_points, n_columns)
    jitter_ : float, what the covariance of the points needed on its diagonal to be factored
    bound_ : float, the objective: a lower bound of the log evidence, but for ``loss="taylor"``
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
    >>> from softmargin import BayesianGPC
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianGPC(loss="jj", tune="alternate", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> mean, variance = model.latent_mean_and_variance([[0.5, 0.25], [5.0, 5.0]])
    >>> bool(variance[1] > variance[0])  # far from all rows little is known
    True
    """

    _LOSSES = LOGISTIC_LOSSES
    _MULTI_CLASS = ("auto", "softmax", "one-vs-each", "ovr")
    _INFERENCES = (*(how for how in INFERENCES if how != "ecm"), "batch")
    _TUNINGS = ("logistic", "bound", "loo", *QUADRATIC_TUNINGS)

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        loss: Loss = "quadrature",
        inference: str = "auto",
        tune: str | None = "logistic",
        multi_class: str = "auto",
        n_upd: int = 3,
        n_fun: int = 5,
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
        device: Any = None,
        precision: str = "auto",
        checkpoint: Any = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.inference = inference
        self.tune = tune
        self.multi_class = multi_class
        self.n_upd = n_upd
        self.n_fun = n_fun
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
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    def _check_parameters(self) -> None:
        given = self._loss_given()
        word = given if isinstance(given, str) else ""
        if self.inference == "gibbs" and word not in DRAWABLE:
            raise ValueError(
                f"inference='gibbs' draws from the posterior itself, which loss={self.loss!r} only approximates; use "
                f"'quadrature' or 'jj'."
            )
        self._check_tuning(word)
        if self.multi_class == "softmax" and word != "logistic":
            raise ValueError(
                f"multi_class='softmax' has a bound of its own, in which loss={self.loss!r} has no part; use "
                f"loss='quadrature', or 'one-vs-each' or 'ovr'."
            )
        super()._check_parameters()

    def _check_tuning(self, word: str) -> None:
        if self.tune == "bound" and not likelihood_of(self._loss_for()).is_bound:
            raise ValueError(
                f"loss={self.loss!r} has no bound to tune by; use tune='alternate', 'logistic', 'loo' or None."
            )
        quadratics = _QUADRATICS.get(str(self.tune), ())
        if quadratics and word not in [LOGISTIC_LOSSES[name] for name in quadratics]:
            raise ValueError(
                f"tune={self.tune!r} goes through quadratics that loss={self.loss!r} does not have; use "
                f"loss={' or '.join(map(repr, quadratics))}, or tune='logistic'."
            )
        positive_integer("n_upd", self.n_upd)
        positive_integer("n_fun", self.n_fun)
        if self.n_fun < _FEWEST_EVALUATIONS:
            raise ValueError(f"n_fun must be at least {_FEWEST_EVALUATIONS}: the first is where a turn begins.")

    def _refuse_classes(self, n_classes: int) -> None:
        super()._refuse_classes(n_classes)
        if n_classes > 2 and self.tune in QUADRATIC_TUNINGS and self.multi_class not in ("auto", "ovr"):
            raise ValueError(
                f"tune={self.tune!r} holds a quadratic for each class, and y has {n_classes} classes that meet; use "
                f"multi_class='ovr', or tune='logistic'."
            )

    def _likelihood(self, loss: str | Likelihood, n_classes: int, prior: Any = None) -> Likelihood:
        if n_classes > 2 and self.tune in QUADRATIC_TUNINGS:  # there is a quadratic for each class if they do not meet
            return MULTI_CLASS["ovr"](likelihood_of(loss))
        return super()._likelihood(loss, n_classes, prior)

    def _rounds(self) -> Rounds:
        return Rounds(self.n_upd, self.n_fun)
