"""The fields of a request's body and of its query, with the types that the contract demands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from muster.testcontrol.expected import MOST_OFFSET, called, sentence
from muster.testcontrol.http.failures import Failure

_WORDS: Final = {int: "a whole number", str: "a text", list: "a list", dict: "an object"}

MOST_NAMED: Final = 5
"""The most unknown fields that a refusal names."""
MOST_DIGITS: Final = 18
"""The most digits of a number in a query: such a number always fits in 63 bits."""

T = TypeVar("T")


class Fields:
    """The fields of a JSON object, each taken once; `end` refuses the others."""

    def __init__(self, given: Any) -> None:
        """Raises Failure when `given` is no object."""
        if not isinstance(given, dict):
            raise Failure("bad-request", "the body is to be a JSON object")
        self.given: dict[str, Any] = given
        self._taken: set[str] = set()

    def take(self, name: str, kind: type[T], default: Any = None) -> Any:
        """The field, or `default` where it is left out or null. Raises Failure when it is of another type."""
        self._taken.add(name)
        value = self.given.get(name)
        if value is None:
            return default
        if not isinstance(value, kind) or isinstance(value, bool):
            raise Failure("bad-request", sentence(name, value, _WORDS[kind]))
        return value

    def need(self, name: str, kind: type[T]) -> T:
        """The field, which is required. Raises Failure."""
        found: T | None = self.take(name, kind)
        if found is None:
            raise Failure("bad-request", f"{name} is missing; {_WORDS[kind]} was expected")
        return found

    def number(self, name: str, default: int | None = None, least: int = 0) -> Any:
        """A number that is not less than `least`. Raises Failure."""
        found: int | None = self.take(name, int, default)
        if found is not None and found < least:
            raise Failure("bad-request", sentence(name, found, f"a whole number from {least} on"))
        if found is not None and found > MOST_OFFSET:
            raise Failure("bad-request", sentence(name, found, f"at most {MOST_OFFSET}"))
        return found

    def any(self, name: str) -> Any:
        """The field, of any type."""
        self._taken.add(name)
        return self.given.get(name)

    def end(self) -> None:
        """Raises Failure when the object has fields that were not taken."""
        left = sorted(self.given.keys() - self._taken)
        if left:
            raise Failure("bad-request", f"{', '.join(map(called, left[:MOST_NAMED]))} means nothing here")


def query_number(query: Mapping[str, str], name: str, default: int | None) -> Any:
    """A number in the query. Raises Failure."""
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > MOST_DIGITS:
        raise Failure("bad-request", sentence(name, text, _WORDS[int]))
    return int(text)
