"""Makes lines for an operator from events of `__transaction_events`. This module does no I/O.

An ended transaction is one line: the duration, the cause of the end, and the partitions with records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from muster.coordinator.history.words import Stamps, Value, client_of, many, plural, seconds

OFFSETS_TOPIC: Final = "__consumer_offsets"
TOPICS_NAMED: Final = 4
"""How many topics a line names. Further topics are counted."""


class TransactionTimeline:
    """Makes the lines of one transactional id."""

    def __init__(
        self,
        zone: Any = None,
        *,
        dates: bool = True,
        everything: bool = False,
        groups: Callable[[Value], Sequence[str]] = lambda _: (),
    ) -> None:
        """`zone`: a datetime.tzinfo; None: the machine's zone. `everything`: events within other lines get lines too.
        `groups` returns the groups whose offsets an ended transaction has committed, as far as these are known.
        """
        self._groups = groups
        self._stamps = Stamps(zone, dates=dates)
        self._everything = everything
        self._open: Value | None = None
        self._partitions = 0

    def feed(self, value: Value) -> list[str]:
        """The lines that this event adds. No lines when the event is part of a later line."""
        kind = value["kind"]
        self._remember(kind, value)
        make_line = _LINES.get(kind)
        if kind in _DETAILS and not self._everything:
            text = None
        elif kind in _ENDED:
            text = _ended(value, self._groups(value))
        elif make_line is None:
            text = kind.replace("_", " ") if self._everything else None
        else:
            text = make_line(value)
        return self._stamps.lines(value["time"], text)

    def end(self, now_ms: int) -> list[str]:
        """The line of a transaction that is still open."""
        if self._open is None:
            return []
        began, count = self._open["began"], self._partitions
        open_for = f"for {seconds(max(now_ms - began, 0))} of at most {seconds(self._open['timeout_ms'])}"
        text = f"a transaction is open, {open_for}: {plural(count, 'partition')}"
        return self._stamps.lines(began, text)[-1:]

    def _remember(self, kind: str, value: Value) -> None:
        if kind == "transaction_begun":
            self._open, self._partitions = value, 0
        elif kind == "partitions_added":
            self._partitions = value["partitions"]
        elif kind in _CLOSING:
            self._open = None


def producer(value: Value, prefix: str = "") -> str:
    """A producer in the form that logs and tools use."""
    return f"producer {value[prefix + 'producer_id']} epoch {value[prefix + 'producer_epoch']}"


def places(topics: Mapping[str, Sequence[int]] | None, groups: Sequence[str] = ()) -> str:
    """The partitions of a transaction in words, those of offsets last. `topics` None: the event does not name them."""
    if topics is None:
        return "very many partitions"
    plain = sorted(one for one in topics if one != OFFSETS_TOPIC)
    named = [f"{topic}:{','.join(map(str, sorted(topics[topic])))}" for topic in plain[:TOPICS_NAMED]]
    if len(plain) > TOPICS_NAMED:
        named.append(f"{plural(len(plain) - TOPICS_NAMED, 'more topic')}")
    if topics.get(OFFSETS_TOPIC):
        named.append(f"offsets of {', '.join(groups)}" if groups else "offsets")
    return ", ".join(named) or "nothing"


def _initialized(value: Value) -> str:
    cause = value["cause"]
    who = f"{producer(value)}{client_of(value)}"
    if cause == "new_id":
        return f"{who} began: the id is new"
    if cause == "same_producer":
        return f"{who} asked for a new epoch after an error"
    fenced = f"; {producer(value, 'fenced_')} is fenced" if value.get("fenced_producer_id", -1) >= 0 else ""
    return f"{who} took the id over{fenced}"


def _ended(value: Value, groups: Sequence[str]) -> str:
    outcome = "committed" if value["kind"] == "transaction_committed" else "aborted"
    why = CAUSES.get(value.get("cause") or "", "")
    why = f": {why}" if why and (outcome, value["cause"]) != ("committed", "client") else ""
    markers = "" if value.get("markers_ms") is None else f", its end took {seconds(value['markers_ms'])}"
    return (
        f"transaction {outcome} after {seconds(value['took_ms'])}{why}; {places(value['topics'], groups)}; "
        f"{producer(value)}{markers}"
    )


def _ending(value: Value) -> str:
    verb = "commits" if value["is_committed"] else "aborts"
    words = f"the coordinator {verb} the transaction" if value["cause"] != "client" else f"its producer {verb}"
    text = f" ({CAUSES[value['cause']]})" if value["cause"] in CAUSES and value["cause"] != "client" else ""
    return f"{words}{text}, open for {seconds(value['open_ms'])}, {plural(value['partitions'], 'partition')}"


def _fenced(value: Value) -> str:
    has = value["current_producer_id"]
    now = "" if has is None or has < 0 else f"; {producer(value, 'current_')} has the id"
    return f"{_refused(value)}: it is fenced{now}"


def _refused(value: Value) -> str:
    count = value["count"]
    if value["api"] is None:
        return f"{count} more requests were refused, of many clients"
    who = (
        f"{producer(value)}{client_of(value)}"
        if value.get("producer_id") not in (None, -1)
        else client_of(value).strip()
    )
    return f"{count} {value['api']} {many('request', count)} of {who} refused: {value['error']}"


CAUSES: Final[Mapping[str, str]] = {
    "client": "its producer asked for it",
    "timeout": "it was open for longer than its timeout",
    "new_producer": "another producer took the id over",
}
"""Why a transaction ended, in words."""

_DETAILS: Final = frozenset({"transaction_begun", "partitions_added", "transaction_ending"})
"""Events without a line of their own: they are part of the transaction's line."""
_ENDED: Final = frozenset({"transaction_committed", "transaction_aborted"})
_CLOSING: Final = frozenset({*_ENDED, "producer_initialized", "transactional_id_expired"})
"""Events after which no transaction is open."""

_LINES: Final[dict[str, Callable[[Value], str]]] = {
    "producer_initialized": _initialized,
    "transaction_begun": lambda value: f"a transaction begins: {producer(value)}{client_of(value)}",
    "partitions_added": lambda value: f"added to the transaction: {places(value['topics'])}",
    "transaction_ending": _ending,
    "producer_fenced": _fenced,
    "requests_refused": _refused,
    "transactional_id_expired": lambda value: f"the id was forgotten: idle for {seconds(value['idle_ms'])}",
    "shard_loaded": lambda value: (
        f"the server read its log: {plural(value['transactional_ids'], 'transactional id')} of partition "
        f"{value['partition']} in {seconds(value['took_ms'])}"
    ),
}
