"""Objects of other packages that files may hold: scikit-learn's kernels, SciPy's splines, and parsed formulas.

A formula calls functions by name whenever the model predicts.  In a file these names could be anything, so only
functions that merely compute are accepted: those of formulae, and NumPy's elementwise ones.
"""

from __future__ import annotations

import inspect
import operator
from functools import partial
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline, PPoly
from sklearn.gaussian_process import kernels

from .errors import StoreError
from .registry import Codec, state_codec

_TRANSFORMS = (
    "Center",
    "Scale",
    "BSpline",
    "CyclicCubicSpline",
    "NaturalCubicSpline",
    "Polynomial",
    "ThinPlateRegressionSpline",
)
#: Classes of formulae, by module; all except the transforms are components of a term.
_FORMULAE = {
    "terms.terms": ("Term",),
    "terms.variable": ("Variable",),
    "terms.call": ("Call",),
    "terms.call_resolver": ("LazyCall", "LazyOperator", "LazyValue", "LazyVariable"),
    "categorical": ("ContrastMatrix",),
    "transforms": _TRANSFORMS,
}
#: NumPy functions that a formula may call besides ufuncs.
_FUNCTIONS = ("where", "clip", "round", "nan_to_num")
#: The largest integer constant of a formula, and the largest power of one.
_LARGEST, _LARGEST_POWER = 2**53, 64


def name_of(kind: type) -> str | None:
    """The name of another package's class in files; None if files cannot hold it."""
    if kind.__module__ == kernels.__name__ and _sklearn_kernel(kind.__name__) is kind:
        return f"sklearn.{kind.__name__}"
    if kind is CubicSpline:
        return "scipy.CubicSpline"
    root, _, module = kind.__module__.partition(".")
    listed = root == "formulae" and kind.__name__ in _FORMULAE.get(module, ())
    return f"formulae.{kind.__name__}" if listed else None


def codec_of(name: str) -> Codec | None:
    """The codec of a class, by the name of the class in files."""
    package, _, word = name.partition(".")
    if package == "sklearn" and (kind := _sklearn_kernel(word)) is not None:
        return Codec(lambda kernel: kernel.get_params(deep=False), partial(_kernel, kind))
    if name == "scipy.CubicSpline":
        return Codec(lambda s: {"c": s.c, "x": s.x, "extrapolate": s.extrapolate, "axis": s.axis}, _cubic_spline)
    modules = [module for module, words in _FORMULAE.items() if word in words]
    if package != "formulae" or not modules:
        return None
    kind = _formulae_class(modules[0], word)
    if word == "LazyOperator":
        return Codec(_operator_parts, partial(_lazy_operator, kind))
    if word == "LazyCall":
        return Codec(lambda call: dict(vars(_checked_call(call))), lambda fields: _checked_call(_plain(kind, fields)))
    if word == "LazyValue":
        return Codec(lambda value: dict(vars(_checked_value(value))), lambda f: _checked_value(_plain(kind, f)))
    return Codec(lambda value: dict(vars(value)), partial(_plain, kind))


def _formulae_class(module: str, word: str) -> type:
    try:
        found = __import__(f"formulae.{module}", fromlist=[word])
    except ImportError as error:
        raise StoreError('its formula needs the package formulae: pip install "softmargin[formula]"') from error
    kind = getattr(found, word, None)
    if not inspect.isclass(kind):
        raise StoreError(f"its formula uses {word}, which the installed formulae does not have; update formulae")
    return kind


# scikit-learn ------------------------------------------------------------------------------------


def _sklearn_kernel(word: str) -> Any:
    """scikit-learn's kernel class of this name, if it can be instantiated."""
    kind = vars(kernels).get(word)
    usable = inspect.isclass(kind) and issubclass(kind, kernels.Kernel) and not inspect.isabstract(kind)
    return kind if usable and kind.__module__ == kernels.__name__ else None


def _kernel(kind: Any, fields: dict[str, Any]) -> Any:
    kernel = kind(**fields)
    if set(kernel.get_params(deep=False)) != set(fields):
        raise StoreError(f"a kernel {kind.__name__} in it lacks parameters")
    return kernel


def _cubic_spline(fields: dict[str, Any]) -> CubicSpline:
    checked = PPoly(fields["c"], fields["x"], fields["extrapolate"], fields["axis"])  # checks, which are skipped below
    return CubicSpline.construct_fast(checked.c, checked.x, checked.extrapolate, checked.axis)


# formulae ----------------------------------------------------------------------------------------


def _plain(kind: type, fields: dict[str, Any]) -> Any:
    """An instance with these fields as its ``__dict__``; no field may hide an attribute of the class itself."""
    hidden = [name for name in fields if not name.isidentifier() or name.startswith("__") or hasattr(kind, name)]
    if hidden:
        raise StoreError(f"a {kind.__name__} of its formula has a part {hidden[0][:40]!r}; do not trust it")
    return state_codec(kind, tuple(fields)).make(fields)


def _operator_parts(value: Any) -> dict[str, Any]:
    _constant(value)
    return {"op": value.op.__name__, "args": tuple(value.args)}


def _lazy_operator(kind: Any, fields: dict[str, Any]) -> Any:
    if set(fields) != {"op", "args"} or fields["op"] not in kind.SYMBOLS or not isinstance(fields["args"], tuple):
        raise StoreError(f"it has an operator {str(fields.get('op'))[:40]!r} in its formula; do not trust it")
    made = kind(getattr(operator, fields["op"]), *fields["args"])
    _constant(made)
    return made


def _checked_value(value: Any) -> Any:
    constant = getattr(value, "value", None)
    if isinstance(constant, (bool, float, str)) or constant is None:
        return value
    if isinstance(constant, int) and abs(constant) < _LARGEST:
        return value
    raise StoreError(f"the constant {str(constant)[:40]} of its formula is too large or invalid; compute a column")


def _checked_call(call: Any) -> Any:
    """The call, after checking that its function only computes."""
    from formulae.categorical import ENCODINGS
    from formulae.transforms import TRANSFORMS

    name = call.callee
    package, _, function = name.partition(".") if isinstance(name, str) else ("", "", "")
    elementwise = isinstance(vars(np).get(function), np.ufunc) or function in _FUNCTIONS
    if not (name in TRANSFORMS or name in ENCODINGS or (package == "np" and elementwise)):
        raise StoreError(
            f"its formula calls {str(name)[:60]!r}: files can hold functions of formulae, and elementwise functions of "
            f"NumPy such as np.log; compute a column first, and use that in the formula"
        )
    arguments = [*call.args, *call.kwargs.values()]
    allowed = ("LazyCall", "LazyOperator", "LazyValue", "LazyVariable")
    if not all(type(part).__name__ in allowed for part in arguments):
        raise StoreError(f"its formula calls {name} with an argument that no formula can contain; do not trust it")
    state = call.stateful_transform
    expected = TRANSFORMS.get(name)
    if state is not None and (type(state) is not expected or getattr(state, "params_set", None) is not True):
        raise StoreError(f"its formula calls {name} with the state of another function; do not trust it")
    return call


def _constant(node: Any) -> Any:
    """The value of a constant part of a formula, a number or string; None if it depends on columns.

    Sizes are limited: Python's integers are unbounded, and evaluating towers of powers would never end.
    """
    if hasattr(node, "value"):
        return node.value
    if getattr(node, "callee", None) == "I" and len(node.args) == 1:
        return _constant(node.args[0])
    if not hasattr(node, "op"):
        return None
    known = [_constant(part) for part in node.args]
    if any(isinstance(part, str) for part in known) and node.op not in (operator.eq, operator.ne):
        raise StoreError("its formula does arithmetic with a string; compute a column first")
    if any(part is None for part in known):
        return None
    if node.op is operator.pow and abs(known[1]) > _LARGEST_POWER:
        raise StoreError("its formula raises a constant to a large power; write the number itself")
    found = node.op(*known)
    if isinstance(found, int) and abs(found) >= _LARGEST:
        raise StoreError("its formula has a constant that is too large; write it with a decimal point")
    return found
