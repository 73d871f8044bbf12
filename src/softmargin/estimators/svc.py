"""The kernel support vector machine."""

from __future__ import annotations

from typing import Any

from ..likelihoods import Loss
from .kernel import KernelClassifier


class BayesianSVC(KernelClassifier):
    r"""A kernel support vector machine that tunes itself and knows how sure it is.

    The latent function is a Gaussian process, the labels meet it through the hinge loss, and the posterior is
    found on inducing points, in time linear in the number of rows.  Kernel parameters, a length-scale for each column
    included, are found first.  Probabilities come from the latent mean *and* variance through a link that is
    calibrated on leave-one-out predictions, which need no refit.  ``predict`` is always the class of larger
    ``predict_proba``.  Entries of X may be missing (NaN), in ``fit`` and in predictions: the kernel is averaged over
    what the other columns of a row say that they might be.  That is for `RBF` kernels; others want them imputed.

    Parameters
    ----------
    kernel : {"rbf", "matern"}, or a kernel of `softmargin.kernels` or scikit-learn
        The words stand for ``10 * RBF() + Constant(1)`` (with 4 for 10 where it is only the start of tuning) and the
        same with ``Matern()``.  Length-scales of None are the spread of each column times the root of the
        number of columns.
        `sklearn.svm.SVC` writes ``gamma`` for :math:`1/(2\ell^2)` and ``C`` for twice the variance.
    loss : {"auto", "hinge", "hinge-augmented", "logistic", "logistic-jj", "logistic-taylor", "probit", "probit-taylor"}
        ``"hinge"``, which is ``"auto"`` here, takes the expectation of the hinge loss exactly; ``"hinge-augmented"`` is
        the bound of Wenzel et al. (2017), whose variances are too small.  Or a likelihood of
        `softmargin.likelihoods` or of your own: an object with ``sites(y, mu, v)``, or one with ``derivatives(y, f)``
        of a log-likelihood, whose expectation is then taken by quadrature.
    multi_class : {"auto", "weston-watkins", "crammer-singer", "ovr", "softmax"}
        How more than two classes meet: every rival of a row's class counts, the strongest alone (softly; with
        ``loss="auto"`` under the augmented bound), each class against all others, or (for ``loss="logistic"``)
        a softmax.  ``"auto"`` is the last for the logistic loss, and for others the first.
    inference : {"auto", "cavi", "svi", "adam", "gibbs", "ecm", "batch"}
        ``"cavi"`` is coordinate ascent over all rows; ``"svi"`` natural-gradient steps on minibatches, whose ``bound_``
        is an estimate; ``"adam"`` those of Adam along the plain gradient (Wistuba and Rawat 2018), which take longer;
        ``"auto"`` takes the first below 50,000 rows (and where weights are very uneven), and above the
        second followed by one pass over all.  ``"gibbs"`` draws from the posterior (slow, and the referee of the
        others; for the hinge, and with ``pip install "softmargin[gibbs]"`` for the logistic loss) and ``"ecm"`` finds
        its mode (Henao et al. 2014; for the hinge).  ``"batch"`` is ``"cavi"`` with a
        point at every distinct row.
    tune : {"logistic", "bound", "bound-steps", "loo"} or None
        Who judges the kernel: the bound of the logistic loss, whatever ``loss`` is; the bound of ``loss`` itself, by
        L-BFGS or by the gradient steps of Wenzel et al. (2017); or the logistic bound, after which the
        leave-one-out log loss may tie the length-scales together or change the variances.  None holds the kernel
        as given.  Otherwise the given kernel is a start, and a single number stays a single number.
        Of more than two classes, ``"logistic"`` and ``"loo"`` first let one half of the rows foretell the other, which
        says whether variances are to stay near the given ones.
        Tables of more than 1,024 rows are judged by samples: of up to 2,048 rows, and of 8,192 from 50,000 on (from
        4,096, where there are more than two classes).
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
    device : str or torch.device, optional
        Where passes over rows run, such as ``"cuda"``; rows that do not fit in its memory are sent there in blocks.
        None is the CPU, and for tensors wherever they are.  What is found comes back as NumPy arrays.
        Needs ``pip install "softmargin[torch]"``.
    precision : {"auto", "float32", "tf32", "float64"}
        Of the products over rows; small matrices are in double precision always.  ``"auto"`` is that of the rows, and
        on a device single.  ``"tf32"`` multiplies single precision with shorter factors, on devices that can.
    checkpoint : path or `softmargin.Checkpoint`, optional
        A file to which the fit writes what it has found after every pass, and from which the same fit goes on after a
        crash; it is gone when the fit ends.
    verbose : bool
        Whether to draw a progress line.
    random_state : int, RandomState or None
        Seeds k-means, minibatches, draws, and the rows that judge kernels where there are more than enough.

    Attributes
    ----------
    classes_ : array of the classes
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
    loss_ : str, the loss that was fitted; or the likelihood, if one was given for which there is no word
    loo_log_loss_ : float, the leave-one-out log loss on the training rows; None where ``link`` is a plain one, and
        NaN where no row can be left out
    draws_ : the draws of ``inference="gibbs"``, None otherwise
    fitted_prior_, data_prior_ : arrays, the share of each class in the fit, and without ``class_weight``
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

    A row of which less is known is less sure:

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
