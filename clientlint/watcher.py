"""The interface of watchers, and what they share: bounded tables, and the error codes of answers. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from muster.clientlint.calls import MAX_ROWS, Call, Certainty, Client, Connection, Known, certainty
from muster.protocol.errors import error_name

MAX_KEPT: Final = 10_000
"""The most members, transactional ids, clients or connections that a watcher remembers, the newest ones."""

__all__ = ["MAX_KEPT", "MAX_ROWS", "Broken", "Kept", "Watcher", "after", "broken", "broken_after", "named", "seconds"]

K = TypeVar("K")
V = TypeVar("V")


class Broken(NamedTuple):
    """One breach of a rule. `words`: a sentence with the evidence. `api`: the request that shows it."""

    rule: str
    client: Client
    api: str
    at_ms: int
    words: str
    certainty: Certainty


class Watcher:
    """Watches the stream of all connections. `apis`: the requests that it wants to see; empty: all requests."""

    apis: ClassVar[Collection[int]] = ()

    def asked(self, call: Call) -> Iterator[Broken]:
        """Take a request that is about to be handled."""
        del call
        yield from ()

    def answered(self, call: Call) -> Iterator[Broken]:
        """Take an answer that the client gets. For a request without an answer, `call.answer` is None."""
        del call
        yield from ()

    def closed(self, connection: Connection) -> None:
        """Forget what belongs to a connection that has ended."""

    def passed(self, now_ms: int) -> Iterator[Broken]:
        """Look for what did not happen. It is called about once a second."""
        del now_ms
        yield from ()


def broken(rule: str, call: Call, words: str, certainty: Certainty) -> Broken:
    """A breach that this call shows."""
    return Broken(rule, call.client, call.api, call.asked_ms, words, certainty)


def after(call: Call, answer: Known) -> str:
    """How long after an answer the call was sent, as `1.5 s after`."""
    return f"{seconds(call.asked_ms - answer.at_ms)} after"


def broken_after(rule: str, call: Call, what: str, answer: Known, why: str) -> Iterator[Broken]:
    """The breach that the client sent `what` after it knew an answer. `why`: what the answer said.

    Nothing if the client may not have known the answer.
    """
    how_sure = certainty(call, answer)
    if how_sure is not None:
        yield broken(rule, call, f"{what} {after(call, answer)} {why}", how_sure)


class Kept(Generic[K, V]):
    """Values by key, at most `MAX_KEPT`: the longest unused value is forgotten first."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: OrderedDict[K, V] = OrderedDict()

    def find(self, key: K) -> V | None:
        """The value of a key, or None."""
        found = self._by_key.get(key)
        if found is not None:
            self._by_key.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> V:
        """Keep a value. Returns it."""
        self._by_key[key] = value
        self._by_key.move_to_end(key)
        if len(self._by_key) > MAX_KEPT:
            self._by_key.popitem(last=False)
        return value

    def make(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, which `make` makes if there is none."""
        found = self.find(key)
        return self.put(key, make()) if found is None else found

    def drop(self, key: K) -> V | None:
        """Forget a key. Returns its value, or None."""
        return self._by_key.pop(key, None)

    def all_keys(self) -> list[K]:
        """All keys, the longest unused one first."""
        return list(self._by_key)

    def values(self) -> list[V]:
        """All values, the longest unused value first."""
        return list(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)


def named(code: int) -> str:
    """Kafka's name of an error code."""
    return error_name(code)


def seconds(ms: int) -> str:
    """A duration in words."""
    return f"{ms} ms" if ms < 1_000 else f"{ms / 1000:.1f} s"
