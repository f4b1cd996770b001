"""Errors that say "not here": the client has to look up the coordinator or the leader before it asks again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from muster.clientlint.calls import Call, Certainty, Client
from muster.clientlint.watcher import Broken, Kept, Watcher, broken, seconds
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode

REPEATS: Final = 5
SPAN_MS: Final = 5_000
"""Clients wait between two lookups, up to a second or two (retry.backoff.max.ms): after this time one is missing."""
_LEADER_ERRORS: Final = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
_RECORDS: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
_LOOKUPS: Final[Mapping[int, str]] = {
    ApiKey.FIND_COORDINATOR: "FindCoordinator",
    ApiKey.METADATA: "Metadata",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "Metadata",
    ApiKey.DESCRIBE_CLUSTER: "Metadata",
}


class _Refusals:
    """Refusals in a row without a lookup."""

    __slots__ = ("count", "first_ms")

    def __init__(self) -> None:
        self.count = self.first_ms = 0


class Lookups(Watcher):
    """See the module. A lookup by any process that shares the client's name counts, so that no finding is false."""

    def __init__(self) -> None:
        self._refusals: Kept[tuple[Client, str], _Refusals] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        if len(self._refusals) and call.api_key in _LOOKUPS:
            self._refusals.drop((call.client, _LOOKUPS[call.api_key]))
        yield from ()

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        if call.answer is None or call.api_key in _LOOKUPS:
            return
        error = call.error
        if call.api_key in _RECORDS:
            place, is_refusal, what = "Metadata", error in _LEADER_ERRORS, "NOT_LEADER_OR_FOLLOWER"
        else:
            place, is_refusal, what = "FindCoordinator", error == ErrorCode.NOT_COORDINATOR, "NOT_COORDINATOR"
        key = call.client, place
        if not is_refusal:
            if not error and len(self._refusals):
                self._refusals.drop(key)
            return
        refusals = self._refusals.make(key, _Refusals)
        refusals.count += 1
        if refusals.count == 1:
            refusals.first_ms = call.answered_ms
        lasted_ms = call.asked_ms - refusals.first_ms
        if refusals.count > REPEATS and lasted_ms >= SPAN_MS:
            self._refusals.drop(key)
            words = f"{refusals.count} requests in {seconds(lasted_ms)} were refused with {what}, without {place}"
            yield broken("no-lookup", call, words, Certainty.SURE)
