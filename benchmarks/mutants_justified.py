"""Why mutants that no test kills are correct as well: see `mutants`."""

#: By what a mutant is called there: its file, its function, and what became of what.
JUSTIFIED: dict[str, str] = {
    "likelihoods/classes.py Softmax.shares: mu - _log_sum_exp(mu) -> mu + _log_sum_exp(mu)": (
        "where Newton's method begins: it ends at the same shares from anywhere"
    ),
    "likelihoods/classes.py Softmax.shares: mu - _log_sum_exp(mu) -> mu": (
        "where Newton's method begins: it ends at the same shares from anywhere"
    ),
    "likelihoods/classes.py Softmax.shares: xp.zeros_like -> xp.ones_like": (
        "a cap on the way, above every logarithm of a probability at the end"
    ),
    "likelihoods/classes.py Softmax.shares: p - before -> p + before": (
        "steps go on to their limit in number: the same shares, later"
    ),
    "likelihoods/classes.py Softmax.shares: p - before -> p": (
        "steps go on to their limit in number: the same shares, later"
    ),
    "likelihoods/classes.py Softmax.shares: max -> min": "a smaller tolerance: the same shares, later",
    "likelihoods/hinge.py Hinge.sites: 2 * y -> 2 / y": "labels are -1 and +1, each its own inverse",
    "likelihoods/smooth.py JaakkolaJordan.sites: 0.0001 -> 0.0002 (#2)": (
        "between the two the limit and the quotient agree in all digits"
    ),
    "likelihoods/smooth.py Quadrature.sites: 0 -> 1 (#3)": "no rows are as many, sorted by their nodes or not",
    "likelihoods/smooth.py Probit.derivatives: 1.0 -> 2.0": "the curvature stays below one by itself",
    "kernels/stationary.py _Stationary._scaled: 2.0 -> 4.0": "any power of two serves that is small enough",
    "links.py fit_softmax_link: 1.0 -> 2.0": (
        "where the search begins if nothing is huge: at half the slope, where the loss is less there"
    ),
    "links.py is_decided: 1 -> 2": "a wider margin: variances are computed where they need not be",
    "links.py _link_loss: -weight * y -> -weight / y": "labels are -1 and +1, each its own inverse",
    "links.py _softmax_link_loss: 0 -> 1 (#3)": "slope and offset have the same prior deviation",
    "links.py _softmax_link_loss: 0 -> 1 (#4)": "slope and offset have the same prior deviation",
    "loo.py left_out_of: 0 -> 1": "both moments are arrays of the same library",
    "loo.py joint_share: 0 -> 1": "both moments are arrays of the same library",
    "loo.py joint_share: xp.zeros_like -> xp.ones_like": (
        "a step that all classes share: centred, it is zero, and rows that are not usable have none"
    ),
    "loo.py _responding: namespace(k).zeros_like -> namespace(k).ones_like": (
        "only the covariance of that belief is looked at, and the linear term does not touch it"
    ),
    "gaussian.py Belief.sample: to_numpy(self.mean) + rng.standard_normal((n_draws, self.root.shape[0])) @ "
    "to_numpy(self.root) -> to_numpy(self.mean) - rng.standard_normal((n_draws, self.root.shape[0])) @ "
    "to_numpy(self.root)": "a normal deviate is as likely as its negative",
    "gaussian.py Belief.sample: 0 -> 1": "the root is square",
    "gaussian.py ClassBelief.means: 0 -> 1": "all classes have arrays of the same library",
    "gaussian.py ClassBelief.roots: 0 -> 1": "all classes have beliefs of the same kind",
    "gaussian.py ClassBelief.roots: 0 -> 1 (#2)": "all classes have arrays of the same library",
    "priors/selection.py LaplaceZero.chosen: expit(logits) - included -> expit(logits) + included": (
        "every column is asked in every sweep: the same probabilities, later"
    ),
    "priors/selection.py _log_mass: 0 -> 1": "between zero and one either formula is exact",
    "priors/structured.py Structured.drawn: 1 -> 2": ("a second draw that nobody looks at"),
    "priors/variance.py VarianceComponents.drawn: 1 -> 2": ("a second draw that nobody looks at"),
    "priors/ridge.py Ridge.drawn: 1 -> 2": "a second draw that nobody looks at",
    "likelihoods/classes.py Softmax.shares: xp.max -> xp.min": "any shift that all classes have in common",
    "links.py _or_infinite: np.zeros_like -> np.ones_like": "a step to there is rejected, whatever its gradient",
    "rows/particles.py ParticleRows.upright: cloud.weights + 0.0 -> cloud.weights - 0.0": "a copy, too",
    "rows/particles.py ParticleRows.turned_back: in_weights + 0.0 -> in_weights - 0.0": "a copy, too",
    "rows/particles.py ParticleRows.upright: xp.zeros_like -> xp.ones_like": (
        "phases are set at the cosines, and read nowhere else"
    ),
    "rows/particles.py ParticleRows.each: 1 -> 2": "how many particles go at once, not what becomes of them",
    "rows/particles.py ParticleView.values: 0 -> 1": "how many particles go at once, not what becomes of them",
    "rows/incomplete.py IncompleteFeatures.drawn: :self.n_columns -> :self.n_columns + 1": (
        "batches look up no columns but those that may be missing"
    ),
    "rows/incomplete.py IncompleteFeatures.drawn: 0 -> 1": (
        "weights are known, and nobody looks at the variances of latent values under them"
    ),
    "rows/incomplete.py IncompleteFeatures.drawn: filled.means + np.einsum('ijk,ik->ij', "
    "np.linalg.cholesky(filled.covariances), noise) -> filled.means - np.einsum('ijk,ik->ij', "
    "np.linalg.cholesky(filled.covariances), noise)": "a normal deviate is as likely as its negative",
}
