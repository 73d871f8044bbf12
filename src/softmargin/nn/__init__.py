"""Neural networks with a Bayesian head (Wistuba and Rawat 2018, section 3.4).

* `MarginHead` is a module: put it on top of any network.
* `HybridClassifier` is a scikit-learn estimator of a network and a head, with some predefined networks.
* `bayesianise` adds a head to a trained classifier, and leaves its features unchanged.
"""

from ..extras import needed

needed("torch", "torch", "softmargin.nn")  # before imports that would fail with a less clear message

from .afterwards import bayesianise  # noqa: E402
from .head import MarginHead  # noqa: E402
from .hybrid import HybridClassifier  # noqa: E402
from .networks import cifar_network, mnist_network, table_network  # noqa: E402

__all__ = ["HybridClassifier", "MarginHead", "bayesianise", "cifar_network", "mnist_network", "table_network"]
