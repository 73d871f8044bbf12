"""Parameters of kernels as parameters of estimators, for scikit-learn's searches."""

from __future__ import annotations

from typing import Any

from ..kernels import Kernel
from ..parameters import by_part


class KernelParameters:
    """An estimator whose ``set_params`` reaches into a kernel, which is immutable: it is replaced by another one."""

    def set_params(self, **params: Any) -> Any:
        """Set the parameters of this estimator, those of its kernel included.

        Parameters
        ----------
        **params : dict
            Values by name; ``kernel__length_scale`` is the length-scale of the kernel, and ``kernel__second__nu`` the
            parameter ``nu`` of the second of two kernels that are added or multiplied.  ``get_params()`` lists them.

        Returns
        -------
        self
            The estimator.

        Examples
        --------
        >>> from softmargin import BayesianSVC
        >>> from softmargin.kernels import RBF
        >>> model = BayesianSVC(4.0 * RBF(1.0), tune=None)
        >>> model.set_params(kernel__second__length_scale=0.5).kernel
        4.0 * RBF(length_scale=0.5)
        """
        own, of_parts = by_part(params)
        for name, some in of_parts.items():
            part = own[name] if name in own else getattr(self, name, None)
            if isinstance(part, Kernel):
                own[name] = part.with_params(**some)
            elif name == "kernel" and not hasattr(part, "set_params"):
                raise ValueError(
                    f"kernel={part!r} has no parameters to set, but {', '.join(f'kernel__{key}' for key in some)} was "
                    f"given: pass a kernel object, such as 4.0 * RBF() + 1.0 of softmargin.kernels."
                )
            else:
                own |= {f"{name}__{key}": value for key, value in some.items()}
        return super().set_params(**own)  # type: ignore[misc]
