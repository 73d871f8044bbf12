"""Values as JSON and numbered arrays, and back.

None, booleans, numbers, strings and lists are written as in JSON.  Everything else is an object whose key gives its
type,

    {"tuple": [...]}, {"dict": [[key, value], ...]}, {"array": 7}, {"scalar": ["<f8", "182d4454fb210940"]}, ...

or ``{"class": "Belief", "fields": {...}}`` for an instance of a class of `softmargin.store.registry`.  An array that
occurs twice is written once, and is one array when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from .arrays import dense, dtype_of, dtype_word
from .errors import StoreError
from .registry import codec_of, name_of

#: The deepest nesting of values.
_DEEPEST = 120
#: Larger integers are written in hexadecimal digits, which are parsed in linear time.
_LARGEST = 2**63
_WORDS = 624  # of the state of a Mersenne twister


class Encoder:
    """Turns values into JSON nodes; ``arrays`` collects the arrays to which these refer by number."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        # Keeps a reference to every value, so that no other object can get the same id.
        self._met: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._n_shared = 0

    def node(self, value: Any, where: str, depth: int = 0) -> Any:
        """The node of a value; ``where`` is its place, for error messages."""
        if depth > _DEEPEST:
            raise StoreError(f"{where[:80]}... is nested within more than {_DEEPEST} other values")
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if abs(value) < _LARGEST else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return self._nodes(value, where, depth)
        if kind in _SIMPLE:
            return _SIMPLE[kind](self, value, where, depth)
        if isinstance(value, np.generic):
            return {"scalar": [_word(value.dtype, where), value.tobytes().hex()]}
        if isinstance(value, np.dtype):
            return {"dtype": _word(value, where)}
        if scipy.sparse.issparse(value) and value.format == "csr":
            return self._csr(value, where, depth)
        return self._instance(value, where, depth)

    def _nodes(self, values: Any, where: str, depth: int) -> list[Any]:
        return [self.node(value, f"{where}[{index}]", depth + 1) for index, value in enumerate(values)]

    def _dict(self, value: dict[Any, Any], where: str, depth: int) -> Any:
        pairs = ((self.node(key, f"a key of {where}", depth + 1), key, entry) for key, entry in value.items())
        return {"dict": [[key, self.node(entry, f"{where}[{given!r}]", depth + 1)] for key, given, entry in pairs]}

    def _slice(self, value: slice, where: str, depth: int) -> Any:
        return {"slice": self._nodes((value.start, value.stop, value.step), where, depth)}

    def _array(self, value: np.ndarray, where: str, depth: int) -> Any:
        return self._once(value, lambda: self._new_array(value, where, depth))

    def _new_array(self, value: np.ndarray, where: str, depth: int) -> Any:
        if value.dtype == object:
            return {"objects": [list(value.shape), self._nodes(value.ravel().tolist(), where, depth)]}
        _word(value.dtype, where)
        usual, back = dense(np.asarray(value))
        self.arrays.append(usual)
        number = len(self.arrays) - 1
        return {"array": number} if back is None else {"turned": [number, back]}

    def _random(self, value: np.random.RandomState, where: str, depth: int) -> Any:
        return self._once(value, lambda: self._new_random(value, where, depth))

    def _new_random(self, value: np.random.RandomState, where: str, depth: int) -> Any:
        state: Any = value.get_state(legacy=False)
        if state["bit_generator"] != "MT19937":
            raise StoreError(f"{where} is a RandomState of {state['bit_generator']}; use MT19937, or a number")
        parts = state["state"]["key"], int(state["state"]["pos"]), int(state["has_gauss"]), float(state["gauss"])
        return {"random": self._nodes(parts, where, depth)}

    def _csr(self, value: Any, where: str, depth: int) -> Any:
        parts = list(value.shape), value.data, value.indices, value.indptr, isinstance(value, scipy.sparse.sparray)
        return {"csr": self._nodes(parts, where, depth)}

    def _instance(self, value: Any, where: str, depth: int) -> Any:
        name = name_of(type(value))
        if name is None:
            raise StoreError(
                f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which files cannot hold: they hold "
                f"numbers, strings, arrays, and the classes of softmargin; leave it out, or pickle the model instead"
            )
        fields = codec_of(name).take(value).items()
        return {"class": name, "fields": {key: self.node(part, f"{where}.{key}", depth + 1) for key, part in fields}}

    def _once(self, value: Any, node: Callable[[], Any]) -> Any:
        """The node of a value; if the value was met before, numbers its first node and returns a reference to it."""
        if id(value) not in self._met:
            made = node()
            self._met[id(value)] = value, made
            return made
        made = self._met[id(value)][1]
        if "first" not in made:
            inner = dict(made)
            made.clear()
            made["first"] = [self._n_shared, inner]
            self._n_shared += 1
        return {"same": made["first"][0]}


_SIMPLE: dict[type, Callable[..., Any]] = {
    tuple: lambda self, value, where, depth: {"tuple": self._nodes(value, where, depth)},
    bytes: lambda self, value, where, depth: {"bytes": value.hex()},
    dict: Encoder._dict,
    slice: Encoder._slice,
    np.ndarray: Encoder._array,
    np.memmap: Encoder._array,
    np.random.RandomState: Encoder._random,
}


def _word(dtype: np.dtype[Any], where: str) -> str:
    word = dtype_word(dtype)
    if word is None:
        raise StoreError(f"{where} has the dtype {dtype}, which files cannot hold; use numbers, strings or dates")
    return word


class Decoder:
    """Turns JSON nodes into values; ``array`` returns the array of a given number."""

    def __init__(self, array: Callable[[int], np.ndarray], n_arrays: int) -> None:
        self._array_at, self._left = array, set(range(n_arrays))
        self._met: dict[int, Any] = {}

    def whole(self, node: Any) -> Any:
        """The value of the root node, which must use all arrays."""
        value = self.value(node)
        if self._left:
            raise StoreError("some of its arrays are not used; do not trust it")
        return value

    def value(self, node: Any, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise StoreError(f"values are nested within more than {_DEEPEST} others")
        if isinstance(node, list):
            return self._values(node, depth)
        if not isinstance(node, dict):
            return node
        if set(node) == {"class", "fields"}:
            return self._instance(node["class"], node["fields"], depth)
        word = next(iter(node), "")
        if len(node) != 1 or word not in _READERS:
            raise StoreError(f"it has a value of an unknown kind {str(word)[:40]!r}")
        return _READERS[word](self, node[word], depth)

    def _values(self, nodes: Any, depth: int, size: int | None = None) -> list[Any]:
        if not isinstance(nodes, list) or len(nodes) != (len(nodes) if size is None else size):
            raise StoreError("it has an unexpected list")
        return [self.value(node, depth + 1) for node in nodes]

    def _instance(self, name: Any, fields: Any, depth: int) -> Any:
        if not isinstance(name, str) or not isinstance(fields, dict):
            raise StoreError("it has an instance without a class or fields")
        codec = codec_of(name)
        return codec.make({key: self.value(node, depth + 1) for key, node in fields.items()})

    def _int(self, digits: Any, depth: int) -> int:
        return int(_typed(str, digits), 16)

    def _float(self, word: Any, depth: int) -> float:
        if word not in ("nan", "inf", "-inf"):
            raise StoreError(f"{str(word)[:40]!r} is not a number")
        return float(word)

    def _dict(self, pairs: Any, depth: int) -> dict[Any, Any]:
        return dict(self._values(pair, depth, 2) for pair in _typed(list, pairs))

    def _slice(self, parts: Any, depth: int) -> slice:
        return slice(*self._values(parts, depth, 3))

    def _array(self, number: Any, depth: int) -> np.ndarray:
        if _typed(int, number) not in self._left:
            raise StoreError(f"it refers to an array {number} that does not exist")
        self._left.remove(number)
        return self._array_at(number)

    def _turned(self, parts: Any, depth: int) -> np.ndarray:
        number, axes = self._values(parts, depth, 2)
        return self._array(number, depth).transpose([_typed(int, axis) for axis in axes])

    def _objects(self, parts: Any, depth: int) -> np.ndarray:
        shape, entries = self._values(parts, depth, 2)
        if math.prod(_typed(int, size) for size in shape) != len(entries) or min(shape, default=0) < 0:
            raise StoreError(f"it has {len(entries)} objects for an array of shape {shape}")
        array = np.empty(len(entries), dtype=object)
        array[:] = entries
        return array.reshape(shape)

    def _scalar(self, parts: Any, depth: int) -> np.generic:
        word, digits = self._values(parts, depth, 2)
        return np.frombuffer(bytes.fromhex(digits), dtype_of(word), 1)[0]

    def _random(self, parts: Any, depth: int) -> np.random.RandomState:
        key, at, has_gauss, gauss = self._values(parts, depth, 4)
        # With a position beyond the end of its state, the generator would read memory that is not its own.
        whole = isinstance(key, np.ndarray) and key.shape == (_WORDS,) and key.dtype == np.uint32
        if not whole or type(at) is not int or not 0 <= at <= _WORDS or has_gauss not in (0, 1):
            raise StoreError("it has a RandomState without a valid state")
        state = np.random.RandomState(0)
        state.set_state(("MT19937", key, at, has_gauss, float(gauss)))
        return state

    def _csr(self, parts: Any, depth: int) -> Any:
        shape, data, indices, indptr, new = self._values(parts, depth, 5)
        kind = scipy.sparse.csr_array if new is True else scipy.sparse.csr_matrix
        matrix = kind((data, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _first(self, parts: Any, depth: int) -> Any:
        number, value = self._values(parts, depth - 1, 2)
        if _typed(int, number) in self._met:
            raise StoreError(f"it has two values with the number {number}")
        self._met[number] = value
        return value

    def _same(self, number: Any, depth: int) -> Any:
        if _typed(int, number) not in self._met:
            raise StoreError("it refers to a value that comes later")
        return self._met[number]


_READERS: dict[str, Callable[[Decoder, Any, int], Any]] = {
    "int": Decoder._int,
    "float": Decoder._float,
    "tuple": lambda self, nodes, depth: tuple(self._values(nodes, depth)),
    "bytes": lambda self, digits, depth: bytes.fromhex(_typed(str, digits)),
    "dict": Decoder._dict,
    "slice": Decoder._slice,
    "array": Decoder._array,
    "turned": Decoder._turned,
    "objects": Decoder._objects,
    "scalar": Decoder._scalar,
    "dtype": lambda self, word, depth: dtype_of(word),
    "random": Decoder._random,
    "csr": Decoder._csr,
    "first": Decoder._first,
    "same": Decoder._same,
}


def _typed(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise StoreError(f"it has {str(value)[:40]!r} where {kind.__name__} should be")
    return value
