"""Neural networks with a Bayesian head (Wistuba and Rawat 2018, section 3.4).

* `MarginHead` is a module: drop it onto any network.
* `HybridClassifier` is a scikit-learn estimator around a network and a head, with networks that are ready.
* `bayesianise` gives a classifier that is already trained a head, and leaves its features alone.
"""

from ..extras import needed

needed("torch", "torch", "softmargin.nn")  # before the files that would say so less clearly

from .afterwards import bayesianise  # noqa: E402
from .head import MarginHead  # noqa: E402
from .hybrid import HybridClassifier  # noqa: E402
from .networks import cifar_network, mnist_network, table_network  # noqa: E402

__all__ = ["HybridClassifier", "MarginHead", "bayesianise", "cifar_network", "mnist_network", "table_network"]
