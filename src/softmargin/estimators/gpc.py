"""The Gaussian process classifier."""

from __future__ import annotations

from typing import Any

from ..inference import DRAWABLE, INFERENCES
from ..likelihoods import MULTI_CLASS, Likelihood, Loss, likelihood_of
from ..parameters import positive_integer
from ..tune import JOINT_TUNINGS, QUADRATIC_TUNINGS, Rounds
from .kernel import KernelClassifier

#: The words that ``loss=`` accepts here, with the library's names for them.
LOGISTIC_LOSSES = {"quadrature": "logistic", "jj": "logistic-jj", "taylor": "logistic-taylor"}
#: For each ``tune=`` that needs a quadratic loss, the losses that qualify.
_QUADRATICS = {how: ("jj",) if how in JOINT_TUNINGS else ("jj", "taylor") for how in QUADRATIC_TUNINGS}
_FEWEST_EVALUATIONS = 2


class BayesianGPC(KernelClassifier):
    r"""Gaussian process classifier on inducing points, with a logistic likelihood.

    This is `BayesianSVC` with a true likelihood in place of the hinge: kernels, inducing points, inference, links,
    methods and the treatment of missing entries are the same.  The methods that Izmailov and Kropotov (2017) compare
    are combinations of ``loss`` and ``tune``:

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
        ``"rbf"`` is ``10 * RBF() + Constant(1)`` (``4 * RBF() + Constant(1)`` as a starting point for tuning), and
        ``"matern"`` the same with ``Matern()``.  Length-scales of None are the spread of each column times the square
        root of the number of columns.
    loss : {"quadrature", "jj", "taylor"}, or a likelihood
        How the expectation of the logistic log-likelihood is taken: by Gauss-Hermite quadrature (Hensman et al. 2015);
        by Jaakkola and Jordan's quadratic lower bound, which needs no safeguard but whose variances are too small; or
        by a Taylor expansion about the mean, which is not a bound: ``bound_`` is then an approximation, and the belief
        that of Laplace.  `BayesianSVC` has the same under the names in ``loss_``.  Or a likelihood, as there.
    inference : {"auto", "cavi", "svi", "adam", "gibbs", "batch"}
        As in `BayesianSVC`.  ``"gibbs"`` draws Polya-Gamma variables, the same for ``"quadrature"`` and ``"jj"``, and
        needs ``pip install "softmargin[gibbs]"``.
    tune : {"logistic", "bound", "loo", "alternate", "hybrid", "full"} or None
        The criterion for the kernel.  ``"logistic"`` is the bound by quadrature, whatever ``loss`` is, with the belief
        optimised for every kernel; ``"bound"`` is that of ``loss`` itself; after ``"loo"`` the leave-one-out log
        loss may tie the length-scales together or change the variances.  For ``"jj"`` and ``"taylor"``, which are
        quadratic, ``"alternate"`` repeats ``n_upd`` updates of the belief and of each row's quadratic, and then at
        most ``n_fun`` evaluations of L-BFGS over the kernel with the quadratics fixed.  For ``"jj"``, ``"hybrid"``
        also updates the quadratics in the second half of each round, and ``"full"`` optimises both by L-BFGS
        throughout.  None keeps the kernel as given.  Otherwise tuning starts from the given kernel, and a scalar
        length-scale stays scalar.
        Tables of more than 1,024 rows are tuned on samples of up to 2,048 rows, or of 8,192 from 50,000 rows on (from
        4,096, with more than two classes).
    multi_class : {"auto", "softmax", "one-vs-each", "ovr"}
        The model for more than two classes: the bound of the softmax (``"auto"`` for ``loss="quadrature"``, and
        available for no other); the product over rivals of the logistic function of the difference, which bounds the
        softmax (``"auto"`` for the others); or each class against the rest (``"auto"``, and the only choice, if
        ``tune`` is ``"alternate"``, ``"hybrid"`` or ``"full"``).
    n_upd, n_fun : int
        For ``"alternate"`` and ``"hybrid"``: updates per round, and maximum number of evaluations, including the one
        at the start of the round.  ``"full"`` begins and ends with ``n_upd`` updates.
    n_inducing : int or "auto"
        Number of inducing points, at most the number of distinct rows.  ``"auto"`` uses as few as explain the other
        rows under the kernel, and at most 256, or 512 from 50,000 rows on (from 8,192, with more than two classes).
    inducing : {"kmeans", "random", "mixture", "tuned"} or array of shape (n_points, n_columns)
        How inducing points are placed, if there are fewer than distinct rows; or the points themselves.  ``"tuned"``
        starts from k-means and moves them to maximise the bound.
    batch_size : int or "auto"
        Number of rows in a minibatch, for ``"svi"`` and ``"adam"``.
    learning_rate : "adaptive" or (delay, power)
        Step sizes of stochastic steps: those of Ranganath et al. (2013), or ``(t + delay) ** -power``.
    n_draws, n_chains, warm_up, thin : int
        For ``"gibbs"``: draws kept per chain, number of chains, iterations before the first draw (``"auto"``: a fifth
        of the others), and iterations from one draw to the next.
    forgetting : float
        Share of past information, from 0 to 1, that each call of ``partial_fit`` discards.
    link : {"loo", "probit", "logistic"}
        Maps latent values to probabilities: calibrated on leave-one-out moments, or the plain link.  ``"logistic"`` is
        the link of the likelihood itself, and differs little.
    class_weight : dict, "balanced" or None
        Factors that multiply the weights of rows, by class.  They change the population that probabilities refer to.
    tol : float
        Stop when the relative gain of the bound still to come, judged by its last steps, is below this.
    max_iter : int
        Maximum number of passes over the data.
    max_time : float, optional
        Time limit in seconds, after which the best model so far is returned, with a warning if the fit has not
        converged; tuning may use half of it.
    n_jobs : int, optional
        Number of threads, over blocks of rows: None uses as many as BLAS may, -1 all cores.
    device, precision, checkpoint
        As in `BayesianSVC`.
    verbose : bool
        Whether to show a progress line.
    random_state : int, RandomState or None
        Seeds k-means, minibatches, draws, and the samples used for tuning.

    Attributes
    ----------
    classes_ : array of the class labels
    loss_ : {"logistic", "logistic-jj", "logistic-taylor"}, the loss by its name in `BayesianSVC`; or the likelihood
        that was given
    kernel_ : the kernel with all its parameters
    tune_history_ : list with a dict for each kernel that was evaluated, in order; for ``"alternate"`` and
        ``"hybrid"``, in the first half of each round
    inducing_points_ : array of shape (n_points, n_columns)
    jitter_ : float, added to the diagonal of the covariance of the inducing points to factor it
    bound_ : float, the objective: a lower bound of the log evidence, except for ``loss="taylor"``
    history_ : list with a dict for each pass (or each check during stochastic steps, or each draw)
    n_iter_ : int, the length of ``history_``
    stop_reason_ : {"converged", "polished", "passes", "time", "interrupt", "stalled", "draws"}
        Why inference stopped; "polished" means one pass of stochastic steps and one full pass, not run to convergence.
    link_ : the fitted link
    loo_log_loss_ : float, the leave-one-out log loss on the training rows; None unless ``link="loo"``, and NaN if no
        row can be left out
    draws_ : the draws of ``inference="gibbs"``, otherwise None
    rows_, belief_ : the features, and the posterior of their weights

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
                f"inference='gibbs' samples from the exact posterior, which loss={self.loss!r} only approximates; use "
                f"loss='quadrature' or 'jj'."
            )
        self._check_tuning(word)
        if self.multi_class == "softmax" and word != "logistic":
            raise ValueError(
                f"multi_class='softmax' has its own bound, which loss={self.loss!r} cannot be combined with; use "
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
                f"tune={self.tune!r} works on quadratics, which loss={self.loss!r} does not have; use "
                f"loss={' or '.join(map(repr, quadratics))}, or tune='logistic'."
            )
        positive_integer("n_upd", self.n_upd)
        positive_integer("n_fun", self.n_fun)
        if self.n_fun < _FEWEST_EVALUATIONS:
            raise ValueError(f"n_fun must be at least {_FEWEST_EVALUATIONS}: the first is the start of the round.")

    def _refuse_classes(self, n_classes: int) -> None:
        super()._refuse_classes(n_classes)
        if n_classes > 2 and self.tune in QUADRATIC_TUNINGS and self.multi_class not in ("auto", "ovr"):
            raise ValueError(
                f"tune={self.tune!r} needs a separate quadratic for each class, and y has {n_classes} classes; use "
                f"multi_class='ovr', or tune='logistic'."
            )

    def _likelihood(self, loss: str | Likelihood, n_classes: int, prior: Any = None) -> Likelihood:
        if n_classes > 2 and self.tune in QUADRATIC_TUNINGS:  # with uncoupled classes, each has its own quadratic
            return MULTI_CLASS["ovr"](likelihood_of(loss))
        return super()._likelihood(loss, n_classes, prior)

    def _rounds(self) -> Rounds:
        return Rounds(self.n_upd, self.n_fun)
