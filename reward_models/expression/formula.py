"""A formula over named numbers of a frame: parsed, checked against a list of what it may hold, and evaluated on arrays.

It is written by people or by a language model, so nothing of it is run as Python: its syntax tree is walked, and all
that is not in the lists below is refused by name. There are no attributes, strings, assignments, loops or calls of
anything but the functions here, and every value is an array of a bounded width and as many rows as there are frames, so
a formula can neither reach out nor take long.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

LONGEST = 1000
"""Characters of a formula."""
MOST = 200
"""Nodes of its syntax tree."""
WIDEST = 4096
"""Numbers a frame of any part of it, as of a part of proprio."""
Values = np.ndarray
"""Numbers of T frames, float64, shape (T, K), or (1, K) where they are the same in all."""


def _norm(value: Values) -> Values:
    return np.asarray(np.sqrt((value**2).sum(axis=1, keepdims=True)))


def _extreme(pick: np.ufunc) -> Callable[..., Values]:
    def of(*values: Values) -> Values:
        return np.asarray(pick.reduce(values[0], axis=1, keepdims=True) if len(values) == 1 else reduce(pick, values))

    return of


def _first(value: Values) -> Values:
    return value[:1]


def _clip(value: Values, low: Values, high: Values) -> Values:
    return np.minimum(np.maximum(value, low), high)


_ONE, _MANY = (1, 1), (1, 8)
FUNCTIONS: Mapping[str, tuple[Callable[..., Values], tuple[int, int]]] = {
    "abs": (np.abs, _ONE),
    "sqrt": (np.sqrt, _ONE),
    "exp": (np.exp, _ONE),
    "tanh": (np.tanh, _ONE),
    "norm": (_norm, _ONE),
    "min": (_extreme(np.minimum), _MANY),
    "max": (_extreme(np.maximum), _MANY),
    "clip": (_clip, (3, 3)),
    "first": (_first, _ONE),
    "lowest": (lambda value: np.fmin.accumulate(value, axis=0), _ONE),
    "highest": (lambda value: np.fmax.accumulate(value, axis=0), _ONE),
}
"""By name: the function, and the fewest and the most arguments of it."""
HISTORY = ("first", "lowest", "highest")
"""Those that read earlier frames."""
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Values, Values], Values]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Values, Values], Values]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_SIGNS: Mapping[type[ast.unaryop], Callable[[Values], Values]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: lambda value: 1 - _truth(value),
}


class FormulaError(ValueError):
    """The error of a formula that cannot be taken: what is there, and what may be."""


class Formula:
    """A formula that has been checked, of one number per frame.

    Args:
        text: In Python's syntax: numbers, names (`arm.part` is one), `[index]`, `[first:last]`, lists of
            numbers, `+ - * / **`, comparisons, `and`, `or`, `not`, `A if C else B`, and the functions of `FUNCTIONS`.

    Attributes:
        text: As it was given, without spaces around it.
        names: Of what it reads.
        remembered: Those of them that it reads of earlier frames too.

    Raises:
        FormulaError: If it is longer than allowed, no expression, or holds something else.

    >>> Formula("1 - norm(tip[:2] - [3, 4]) / 5")({"tip": np.array([[3.0, 4.0, 9.0], [0.0, 0.0, 9.0]])}).tolist()
    [1.0, 0.0]
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        if len(self.text) > LONGEST:
            raise FormulaError(f"formula has {len(self.text)} characters, must have at most {LONGEST}; shorten it")
        try:
            self._tree = ast.parse(self.text, mode="eval").body
            nodes = list(ast.walk(self._tree))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise FormulaError(f"formula {self.text[:80]!r} is no expression ({error}); write it anew") from error
        if len(nodes) > MOST:
            raise FormulaError(f"formula has {len(nodes)} parts, must have at most {MOST}; shorten it")
        self.names: frozenset[str] = frozenset(self._check(self._tree))
        self.remembered: frozenset[str] = frozenset().union(
            *(
                self._check(argument)
                for node in nodes
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in HISTORY
                for argument in node.args
            )
        )

    def check(self, sizes: Mapping[str, int]) -> None:
        """Check it against what there is to read.

        Args:
            sizes: Numbers of each name.

        Raises:
            FormulaError: If it reads what is not there, beyond its end, or does not come to one number per frame.
        """
        unknown = sorted(self.names - sizes.keys())
        if unknown:
            raise FormulaError(f"formula reads {', '.join(unknown)}, must read some of {', '.join(sorted(sizes))}")
        self({name: np.full((2, sizes[name]), 0.5) for name in self.names})

    def __call__(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Evaluate it.

        Args:
            values: By name, float64, shape (T, K), of the frames of an episode from its first on.

        Returns:
            A number per frame, float64, shape (T,); NaN where there is none, as after a division by 0, and where what
            it reads is none.

        Raises:
            FormulaError: As `check`.
        """
        frames = max((len(value) for value in values.values()), default=1)
        with np.errstate(all="ignore"):
            found = self._of(self._tree, values)
        if found.shape[1] != 1:
            raise FormulaError(f"formula comes to {found.shape[1]} numbers a frame, must come to one; take norm or [i]")
        return np.array(np.broadcast_to(found[:, 0], (frames,)))

    def _check(self, node: ast.expr) -> set[str]:
        """Refuse whatever is not listed; returns the names that are read."""
        if (name := _name(node)) is not None and name not in FUNCTIONS:
            return {name}
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and abs(value) <= 1e9:
                inner: Sequence[ast.expr] = ()
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
                inner = (left, right)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _SIGNS:
                inner = (operand,)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
                inner = (left, *others)
            case ast.BoolOp(values=several) | ast.List(elts=several) if several:
                inner = several
            case ast.IfExp(test=test, body=body, orelse=other):
                inner = (test, body, other)
            case ast.Subscript(value=value, slice=index):
                _places(index)
                inner = (value,)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                fewest, most = FUNCTIONS[name][1]
                if not fewest <= len(arguments) <= most:
                    raise FormulaError(
                        f"{name} is called with {len(arguments)} arguments, must be with "
                        + (f"{fewest}" if fewest == most else f"{fewest} to {most}")
                    )
                inner = arguments
            case _:
                raise FormulaError(
                    f"formula holds {ast.unparse(node)[:60]!r}, must hold numbers, names, + - * / **, comparisons, "
                    f"and, or, not, A if C else B, [index] and the functions {', '.join(FUNCTIONS)} alone"
                )
        return set().union(*map(self._check, inner))

    def _of(self, node: ast.expr, values: Mapping[str, np.ndarray]) -> Values:
        """Evaluate a node that has been checked, each node once; shape (T or 1, K)."""
        if (name := _name(node)) is not None:
            return np.asarray(values[name], np.float64)
        match node:
            case ast.Constant(value=value):
                return np.array([[float(value)]])  # type: ignore[arg-type]
            case ast.BinOp(op=op, left=left, right=right):
                return self._joined(node, _ARITHMETIC[type(op)], [left, right], values)
            case ast.UnaryOp(op=sign, operand=operand):
                return self._joined(node, _SIGNS[type(sign)], [operand], values)
            case ast.Compare(left=left, ops=ops, comparators=others):
                signs = [_COMPARISONS[type(op)] for op in ops]

                def chain(*sides: Values) -> Values:
                    links = zip(signs, itertools.pairwise(sides), strict=True)
                    return reduce(np.minimum, [_known(sign(*pair), *pair) for sign, pair in links])

                return self._joined(node, chain, [left, *others], values)
            case ast.BoolOp(op=both, values=several):
                pick = np.minimum if isinstance(both, ast.And) else np.maximum
                return self._joined(node, lambda *found: reduce(pick, map(_truth, found)), several, values)
            case ast.List(elts=several):
                found = [self._of(each, values) for each in several]
                if (width := sum(each.shape[1] for each in found)) > WIDEST:
                    raise FormulaError(f"a list holds {width} numbers a frame, must hold at most {WIDEST}; shorten it")
                rows = max(len(each) for each in found)
                return np.concatenate([np.broadcast_to(each, (rows, each.shape[1])) for each in found], axis=1)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._joined(node, _chosen, [test, body, other], values)
            case ast.Subscript(value=value, slice=index):
                whole, places = self._of(value, values), _places(index)
                picked = whole[:, places] if isinstance(places, slice) else whole[:, places : places + 1 or None]
                if not picked.shape[1]:
                    raise FormulaError(
                        f"{ast.unparse(node)[:60]!r} reads beyond the {whole.shape[1]} numbers of "
                        f"{ast.unparse(value)[:40]!r}; they are counted from 0"
                    )
                return picked
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._joined(node, FUNCTIONS[name][0], arguments, values)
            case _:
                raise AssertionError(f"{ast.dump(node)} was not checked")

    def _joined(
        self,
        node: ast.expr,
        function: Callable[..., Values],
        inner: Sequence[ast.expr],
        values: Mapping[str, np.ndarray],
    ) -> Values:
        """Apply a function to what several nodes come to, which must be equally many numbers, or one."""
        found = [self._of(each, values) for each in inner]
        widths = {each.shape[1] for each in found} - {1}
        if len(widths) > 1:
            raise FormulaError(
                f"{ast.unparse(node)[:60]!r} joins {' and '.join(map(str, sorted(widths)))} numbers, must join equally "
                "many; take a part of the longer with [first:last]"
            )
        result = np.asarray(function(*found), np.float64)
        return np.where(np.isfinite(result), result, np.nan)


def _known(value: np.ndarray, *of: Values) -> Values:
    """Return a value as numbers, NaN where one of those that it is made of is none."""
    return np.asarray(np.where(reduce(np.logical_or, map(np.isnan, of)), np.nan, value))


def _truth(value: Values) -> Values:
    """Return 1 for every number but 0, 0 for 0, and NaN for none."""
    return _known(value != 0, value)


def _chosen(test: Values, body: Values, other: Values) -> Values:
    return _known(np.where(_truth(test) > 0, body, other), test)


def _name(node: ast.expr) -> str | None:
    """Return the name that a node is, `arm.part` as one; None of any other node."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=arm), attr=part):
            return f"{arm}.{part}"
    return None


def _places(index: ast.expr) -> int | slice:
    """Return a constant index, or a slice without a step.

    Raises:
        FormulaError: If it is anything else.
    """
    try:
        if isinstance(index, ast.Slice) and index.step is None:
            ends = [
                None if end is None else operator.index(ast.literal_eval(end)) for end in (index.lower, index.upper)
            ]
            return slice(*ends)
        return operator.index(ast.literal_eval(index))
    except (ValueError, TypeError) as error:
        raise FormulaError(f"index is {ast.unparse(index)[:40]!r}, must be a number or first:last") from error
