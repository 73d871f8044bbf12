"""The kernel support vector machine."""

from __future__ import annotations

from typing import Any

from ..likelihoods import Loss
from .kernel import KernelClassifier


class BayesianSVC(KernelClassifier):
    r"""Bayesian kernel support vector machine that tunes its own kernel.

    The latent function is a Gaussian process, tied to the labels by the hinge loss.  Kernel parameters, including a
    length-scale for each column, are tuned first; the posterior is then computed on inducing points, in time linear
    in the number of rows.  Probabilities come from the latent mean *and* variance, through a link calibrated on
    leave-one-out predictions, which need no refit.  ``predict`` always returns the class with the larger
    ``predict_proba``.  X may have missing entries (NaN), in ``fit`` and in prediction: the kernel is averaged over
    their distribution given the other columns of the row.  This needs an `RBF` kernel; for others, impute first.

    Parameters
    ----------
    kernel : {"rbf", "matern"}, or a kernel of `softmargin.kernels` or scikit-learn
        ``"rbf"`` is ``10 * RBF() + Constant(1)`` (``4 * RBF() + Constant(1)`` as a starting point for tuning), and
        ``"matern"`` the same with ``Matern()``.  Length-scales of None are the spread of each column times the square
        root of the number of columns.
        In `sklearn.svm.SVC`, ``gamma`` is :math:`1/(2\ell^2)` and ``C`` is twice the variance.
    loss : {"auto", "hinge", "hinge-augmented", "logistic", "logistic-jj", "logistic-taylor", "probit", "probit-taylor"}
        ``"hinge"``, the default, takes the expectation of the hinge loss exactly; ``"hinge-augmented"`` is the bound
        of Wenzel et al. (2017), whose variances are too small.  Or a likelihood, from `softmargin.likelihoods` or
        your own: an object with ``sites(y, mu, v)``, or with ``derivatives(y, f)`` of a log-likelihood, whose
        expectation is then taken by quadrature.
    multi_class : {"auto", "weston-watkins", "crammer-singer", "ovr", "softmax"}
        The loss for more than two classes: against every rival of a row's class, against the strongest only (softly;
        with the augmented bound if ``loss="auto"``), each class against the rest, or (with ``loss="logistic"``)
        a softmax.  ``"auto"`` is ``"softmax"`` for the logistic loss, and ``"weston-watkins"`` for the others.
    inference : {"auto", "cavi", "svi", "adam", "gibbs", "ecm", "batch"}
        ``"cavi"`` is coordinate ascent over all rows; ``"svi"`` takes natural-gradient steps on minibatches, and its
        ``bound_`` is an estimate, lower than the bound of the belief; ``"adam"`` takes Adam steps along the plain
        gradient (Wistuba and Rawat 2018), and is slower.  ``"auto"`` is ``"cavi"`` below 50,000 rows (and where weights
        are very uneven), and otherwise ``"svi"`` followed by one full pass.  ``"gibbs"`` samples from the posterior
        (slow, a reference for the others; for the hinge and, with ``pip install "softmargin[gibbs]"``, the logistic
        loss); ``"ecm"`` finds the posterior mode (Henao et al. 2014; for the hinge).  ``"batch"`` is ``"cavi"`` with an
        inducing point at every distinct row.
    tune : {"logistic", "bound", "bound-steps", "loo"} or None
        The criterion for the kernel: the bound of the logistic loss, whatever ``loss`` is; the bound of ``loss``
        itself, maximised by L-BFGS or by the gradient steps of Wenzel et al. (2017); or the logistic bound, after
        which the leave-one-out log loss may tie the length-scales together or change the variances.  None keeps the
        kernel as given.  Otherwise tuning starts from the given kernel, and a scalar length-scale stays scalar.
        With more than two classes, ``"logistic"`` and ``"loo"`` first predict one half of the rows from the other, to
        decide whether variances should stay near the given ones.
        Tables of more than 1,024 rows are tuned on samples of up to 2,048 rows, or of 8,192 from 50,000 rows on (from
        4,096, with more than two classes).
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
        Maps latent values to probabilities: calibrated on leave-one-out moments, or the plain link.
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
    device : str or torch.device, optional
        Where passes over rows run, such as ``"cuda"``; rows that do not fit in its memory are sent in blocks.
        None is the CPU or, for tensors, the device they are on.  Results are returned as NumPy arrays.
        Needs ``pip install "softmargin[torch]"``.
    precision : {"auto", "float32", "tf32", "float64"}
        Precision of products over rows; small matrices are always in double precision.  ``"auto"`` is the precision of
        the rows, and single on a device.  ``"tf32"`` is single with shorter factors in products, where supported.
    checkpoint : path or `softmargin.Checkpoint`, optional
        File in which the fit saves its state after every pass, and from which the same fit resumes after a crash; it
        is deleted when the fit ends.
    verbose : bool
        Whether to show a progress line.
    random_state : int, RandomState or None
        Seeds k-means, minibatches, draws, and the samples used for tuning.

    Attributes
    ----------
    classes_ : array of the class labels
    kernel_ : the kernel with all its parameters
    tune_history_ : list with a dict for each kernel that was evaluated, in order
    inducing_points_ : array of shape (n_points, n_columns)
    jitter_ : float, added to the diagonal of the covariance of the inducing points to factor it
    bound_ : float, the objective: the lower bound of the (pseudo-)likelihood minus the divergence from the prior
    history_ : list with a dict for each pass (or each check during stochastic steps, or each draw)
    n_iter_ : int, the length of ``history_``
    stop_reason_ : {"converged", "polished", "passes", "time", "interrupt", "stalled", "draws"}
        Why inference stopped; "polished" means one pass of stochastic steps and one full pass, not run to convergence.
    link_ : the fitted link
    loss_ : str, the loss that was fitted; or the likelihood, if one without a name was given
    loo_log_loss_ : float, the leave-one-out log loss on the training rows; None for a plain ``link``, and NaN if no
        row can be left out
    draws_ : the draws of ``inference="gibbs"``, otherwise None
    fitted_prior_, data_prior_ : arrays, the share of each class with and without ``class_weight``
    rows_, belief_ : the features, and the posterior of their weights

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

    A row with a missing entry has a larger variance:

    >>> import numpy as np
    >>> _, variance = model.latent_mean_and_variance([[0.0, 1.0], [0.0, np.nan]])
    >>> bool(variance[0] < variance[1])
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        loss: Loss = "auto",
        multi_class: str = "auto",
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
        device: Any = None,
        precision: str = "auto",
        checkpoint: Any = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.multi_class = multi_class
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
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state
