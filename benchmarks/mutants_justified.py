"""Why mutants that no test kills are right as well: see `mutants`."""

#: By what a mutant is called there: its file, its function, and what became of what.
JUSTIFIED: dict[str, str] = {
    "likelihoods/classes.py Softmax.shares: mu - _log_sum_exp(mu) -> mu + _log_sum_exp(mu)": (
        "where Newton's method begins: it ends at the same shares from anywhere"
    ),
    "likelihoods/classes.py Softmax.shares: xp.zeros_like -> xp.ones_like": (
        "a cap on the way, above every logarithm of a probability at the end"
    ),
    "likelihoods/classes.py Softmax.shares: p - before -> p + before": (
        "steps go on to their limit in number: the same shares, later"
    ),
    "likelihoods/hinge.py Hinge.sites: 2 * y -> 2 / y": "labels are -1 and +1, each its own inverse",
    "links.py fit_softmax_link: 0 -> 1": "where the search begins: there is one optimum",
    "links.py _softmax_link_loss: 0 -> 1 (#3)": "slope and offset have the same prior deviation",
    "links.py _softmax_link_loss: 0 -> 1 (#4)": "slope and offset have the same prior deviation",
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
}
