"""The SQL expressions that the tables contain as text. A text is cheaper for Spark than many Column objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from operator import ge, gt, le, lt, ne
from typing import Any, Final

from muster.pipeline.frames.column import Column, Context, Vector, by_name, literal
from muster.pipeline.frames.types import type_of

_WORDS: Final = re.compile(r"\s*(`[^`]*`|'[^']*'|[A-Za-z_][A-Za-z_0-9.]*|\d+|<=|>=|!=|<>|[-+*/=<>()\[\],])")
_COMPARED: Final[dict[str, Callable[[Any, Any], Any]]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "!=": ne, "<>": ne}


@cache
def parsed(text: str) -> Column:
    """The Column of an SQL expression. An alias (`as name`) may follow. Raises ValueError."""
    return _Parser(text).whole()


class _Parser:
    """One text while it is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = _WORDS.findall(text)
        self._at = 0

    def whole(self) -> Column:
        found = self._either()
        if self._take("as"):
            found = found.alias(self._next().strip("`"))
        if self._at != len(self._words):
            raise ValueError(f"the SQL text {self._text!r} cannot be read from {self._peek()!r} on")
        return found

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _next(self) -> str:
        self._at += 1
        return str(self._words[self._at - 1])

    def _take(self, word: str) -> bool:
        is_it = self._peek().lower() == word
        self._at += is_it
        return is_it

    def _either(self) -> Column:
        found = self._both()
        while self._take("or"):
            found = found | self._both()
        return found

    def _both(self) -> Column:
        found = self._not()
        while self._take("and"):
            found = found & self._not()
        return found

    def _not(self) -> Column:
        return ~self._not() if self._take("not") else self._compared()

    def _compared(self) -> Column:
        left = self._single()
        if self._take("is"):
            is_not = self._take("not")
            self._take("null")
            return left.isNotNull() if is_not else left.isNull()
        if self._take("="):
            return left == self._single()
        compare = _COMPARED.get(self._peek())
        if compare is None:
            return left
        self._next()
        found: Column = compare(left, self._single())
        return found

    def _single(self) -> Column:
        word = self._next()
        if word == "(":
            found = self._either()
            self._take(")")
        elif word[0] == "'":
            found = literal(word[1:-1])
        elif word.isdigit():
            found = literal(int(word))
        elif word in ("true", "false", "null"):
            found = literal({"true": True, "false": False}.get(word))
        elif self._take("("):
            found = self._call(word.lower())
        else:
            found = by_name(word.strip("`"))
        while self._take("["):
            found = found[self._either()]
            self._take("]")
        return found

    def _call(self, name: str) -> Column:
        first = self._either()
        if name in ("cast", "try_cast"):
            begin, depth = self._at + 1, 0
            while depth or self._peek() != ")":
                depth += {"(": 1, ")": -1}.get(self._next(), 0)
            kind = "".join(f"{word} " for word in self._words[begin : self._at])
            self._take(")")
            return first.cast(type_of(kind)) if name == "cast" else first.try_cast(kind)
        others = []
        while self._take(","):
            others.append(self._either())
        self._take(")")
        return _CALLS[name](first, *others)


def _of_rows(make: Callable[..., Any], *columns: Column) -> Column:
    def values(of: Context) -> Vector:
        rows = zip(*(one.make(of).values for one in columns), strict=True)
        return Vector([None if None in some else make(*some) for some in rows])

    return Column(values)


_CALLS: Final[dict[str, Callable[..., Column]]] = {
    "size": lambda one: _of_rows(len, one),
    "slice": lambda some, start, count: _of_rows(lambda a, b, c: a[b - 1 : b - 1 + c], some, start, count),
    "substring": lambda text, start: _of_rows(lambda a, b: a[b - 1 :], text, start),
}
