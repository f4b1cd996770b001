"""A group's history, from its events in `__group_events`, in their order (docs/events.md)."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from muster.pipeline.whatif.history import (
    AFTER,
    BEFORE,
    CLIENT,
    COMPLETED,
    EMPTIED,
    EVENTS,
    EXPIRED,
    FAILED,
    LEFT,
    REPLACED,
    Generation,
    History,
    Offer,
    Offers,
    Owned,
    Refusal,
    Rejoin,
    Round,
    Stay,
    with_assigned,
)
from muster.pipeline.whatif.leader import claims
from muster.protocol.consumer import subscribed_topics
from muster.protocol.message import MalformedMessage

Value = Mapping[str, Any]
"""The JSON of one event."""

_UNKNOWN_MEMBER: Final = "UNKNOWN_MEMBER_ID"
_ID_HELD_UP_MS: Final = 1_000
"""Between the request for an id and its use is one round trip, which is not longer than this."""


def history_of(group: str, values: Iterable[Value], end_ms: int = 0) -> History:
    """The history of the group. Its `unusable` says why it cannot be replayed. `end_ms`: the log's end, if known."""
    reader = _Reader(group)
    before: Value | None = None
    begun, time_ms = False, 0
    for value in values:
        time_ms = max(time_ms, value["time"])  # refusals are logged when the second in which they are counted is over
        if not begun:
            begun = _begins(reader, before, value)
            before = value
        if begun:
            reader.feed(value)
    reader.end(time_ms, end_ms)
    return reader.history


def _begins(reader: _Reader, before: Value | None, value: Value) -> bool:
    """Whether this is the first event that shows the whole state of the group."""
    kind = value["kind"]
    if kind in ("group_created", "rebalance_completed", "group_emptied"):
        reader.begin(value)
        return True
    # if the log begins between these two events, nobody knows which members joined
    from_empty = kind == "rebalance_started" and value["state"] == "Empty"
    if from_empty and before is not None and before["kind"] == "member_joined":
        reader.begin(before)
        reader.feed(before)
        return True
    return False


class _Reader:
    def __init__(self, group: str) -> None:
        self.history = History(group, EVENTS)
        self._stays: dict[str, Stay] = {}
        self._round: Round | None = None
        self._stopped_ms: int | None = None
        self._counts: dict[str, int] = {}
        self._subscribed: dict[str, tuple[str, ...]] = {}
        self._last: Round | None = None
        self._is_first = self._needs_number = False

    def begin(self, value: Value) -> None:
        history = self.history
        history.start_ms = value["time"]
        self._is_first = value["kind"] in ("rebalance_completed", "group_emptied")
        if self._is_first:
            history.first_generation = value["generation"]
        # the next rebalance_started (from Empty) has the generation for this member_joined
        self._needs_number = value["kind"] == "member_joined"

    def end(self, last_ms: int, end_ms: int) -> None:
        history = self.history
        history.last_ms, history.end_ms = last_ms, max(last_ms, end_ms)
        history.stays = list(self._stays.values())
        history.open_ms = self._stopped_ms
        if history.unusable is None and not history.generations and history.given is None:
            history.unusable = "no generation of it is in the log"

    def feed(self, value: Value) -> None:
        handler = _HANDLERS.get(value["kind"])
        if handler is not None:
            handler(self, value)
        self._is_first = False

    # ---- members

    def joined(self, value: Value) -> None:
        self._new(value["member"], value["time"])
        if value["protocol_type"] != "consumer":
            self.history.unusable = f"it is no group of consumers but of type {value['protocol_type']!r}"

    def replaced(self, value: Value) -> None:
        old = self._stays.get(value["replaced"])
        if old is not None:
            old.end, old.end_ms = REPLACED, value["time"]
        self._new(value["member"], value["time"])

    def was_a_consumer_group(self, _: Value) -> None:
        self.history.unusable = "it was a KIP-848 group for a time"

    def left(self, value: Value) -> None:
        self._ends(value, LEFT).reason = value["reason"]

    def expired(self, value: Value) -> None:
        stay = self._ends(value, EXPIRED)
        heard_ms = value["member"]["heard"]
        stay.heard_ms = value["time"] - stay.session_timeout_ms if heard_ms is None else heard_ms

    def removed(self, value: Value) -> None:
        self._ends(value, value["cause"])

    def refused(self, value: Value) -> None:
        if value["error"] == _UNKNOWN_MEMBER and value["client_id"] is not None:
            self.history.refusals.append(Refusal(value["time"], value["client_id"], value["host"]))

    def _ends(self, value: Value, how: str) -> Stay:
        member = value["member"]
        stay = self._stays.get(member["member"]) or self._new(member, None)
        stay.end, stay.end_ms, stay.end_rank = how, value["time"], self._rank(value["time"])
        return stay

    def _new(self, member: Value, joined_ms: int | None) -> Stay:
        stay = Stay(
            member["member"],
            member["instance"],
            **{name: member[name] for name in CLIENT},
            joined_ms=joined_ms,
            joined_rank=BEFORE if joined_ms is None else self._rank(joined_ms),
        )
        stay.offers.append((joined_ms or 0, self._read_offers(member["protocols"])))
        stay.remembers = joined_ms is not None and any(claims(one["metadata"]) for one in member["protocols"])
        self._stays[stay.member_id] = stay
        return stay

    def _rank(self, ms: int) -> int:
        """The rank of a fact.

        A fact in the ms in which a rebalance started comes after the start. Other facts come before what members do.
        """
        return AFTER if self._round is not None and self._round.began_ms == ms else BEFORE

    def _read_offers(self, protocols: Sequence[Value]) -> Offers:
        return tuple(Offer(one["name"], self._topics(one["metadata"])) for one in protocols)

    def _topics(self, metadata: str | None) -> tuple[str, ...]:
        if metadata is None:
            self.history.unusable = "the subscription of a member is too large to be in the events"
            return ()
        found = self._subscribed.get(metadata)
        if found is None:
            try:
                found = tuple(subscribed_topics(b64decode(metadata)))
            except (MalformedMessage, BadBase64):
                self.history.unusable = "the subscription of a member cannot be read"
                found = ()
            self._subscribed[metadata] = found
        return found

    # ---- rebalances

    def started(self, value: Value) -> None:
        time_ms, cause, trigger = value["time"], value["cause"], value["trigger"]
        if self._needs_number:
            self.history.first_generation = value["generation"]
            self._needs_number = False
        who = None if trigger is None else trigger["member"]
        if self._round is not None and self._round.outcome is None:
            # the server stopped in the middle of the rebalance, and forgot it
            self._round.outcome, self._round.ended_ms = FAILED, time_ms
            self._stopped_ms = None
        if self._stopped_ms is None:
            self._stopped_ms = time_ms
        self._round = self._last = Round(time_ms, cause, who)
        self.history.rounds.append(self._round)
        stay = self._stays.get(who or "")
        if stay is not None:
            if stay.joined_ms == time_ms:
                stay.joined_rank = AFTER
            if stay.end_ms == time_ms:
                stay.end_rank = AFTER
        if cause in ("partitions_changed", "leader_rejoined"):
            self.history.rejoins.append(Rejoin(time_ms, None, AFTER))
        elif cause in ("subscription_changed", "metadata_changed"):
            self.history.rejoins.append(Rejoin(time_ms, who, AFTER))

    def completed(self, value: Value) -> None:
        if value["protocol_type"] != "consumer":
            self.history.unusable = f"it is no group of consumers but of type {value['protocol_type']!r}"
            return
        current = self._close(value, COMPLETED)
        shares: dict[str, Owned] = {}
        for member in value["members"]:
            owned = member["assignment"]
            if owned is None:
                self.history.unusable = "an assignment of it cannot be read"
                return
            shares[member["member"]] = {one["topic"]: one["partitions"] for one in owned}
        stopped_ms = value["time"] if self._stopped_ms is None else self._stopped_ms
        self._stopped_ms = None
        one = Generation(value["generation"], value["time"], value["protocol"], value["leader"], shares, stopped_ms)
        since_ms = value["time"] if current is None else current.began_ms
        self._take_counts(with_assigned(value["topics"], shares), since_ms)
        settings = value["settings"]
        self.history.initial_delay_ms = settings["group_initial_rebalance_delay_ms"]
        self.history.max_size = settings["group_max_size"]
        if self._is_first:
            self.history.given = one
        else:
            self.history.generations.append(one)

    def failed(self, value: Value) -> None:
        self._close(value, FAILED)

    def emptied(self, value: Value) -> None:
        self._stopped_ms = None
        if self._round is not None:
            self._round.outcome, self._round.ended_ms = EMPTIED, value["time"]
            self._round = None
        if not self._is_first:
            self.history.emptied.append(value["time"])

    def synced(self, value: Value) -> None:
        if self._last is not None:
            self._last.syncs.update(value["synced"])

    def deleted(self, value: Value) -> None:
        self.history.deleted.append(value["time"])

    def _close(self, value: Value, outcome: str) -> Round | None:
        current = self._round
        for member in value["members"]:
            stay = self._stays.get(member["member"]) or self._new(member, None)
            stay.session_timeout_ms = member["session_timeout_ms"]
            stay.rebalance_timeout_ms = member["rebalance_timeout_ms"]
            offers = self._read_offers(member["protocols"])
            if offers != stay.offers[-1][1]:
                joined_ms = member["joined"] or value["time"]
                stay.offers.append((joined_ms, offers))
                if current is not None and joined_ms > current.began_ms:
                    self.history.rejoins.append(Rejoin(joined_ms, stay.member_id, BEFORE))
            if current is not None:
                if member["joined"] is not None and member["joined"] >= current.began_ms:
                    current.joins[stay.member_id] = member["joined"]
                if member["synced"] is not None:
                    current.syncs[stay.member_id] = member["synced"]
        if current is None:
            return None
        current.outcome, current.ended_ms = outcome, value["time"]
        if value["join_phase_ms"] is not None:
            current.joined_ms = current.began_ms + value["join_phase_ms"]
            self._note_requested_ids(current)
        self._round = None
        return current

    def _note_requested_ids(self, current: Round) -> None:
        """A new member's JoinGroup with its id ended the join phase.

        So the member's request for this id had delayed the phase.
        """
        end_ms = current.joined_ms or 0
        asked_ms = max((ms for ms in current.joins.values() if ms < end_ms), default=0)
        if end_ms - asked_ms > _ID_HELD_UP_MS:
            return
        for stay in (self._stays[name] for name in current.joins):
            if stay.joined_ms == end_ms and stay.joined_rank == BEFORE and stay.instance_id is None:
                stay.asked_ms = asked_ms

    def _take_counts(self, counts: Mapping[str, int], since_ms: int) -> None:
        if counts != self._counts:
            self._counts = dict(counts)
            self.history.counts.append((since_ms, self._counts))


_HANDLERS: Final = {
    "member_joined": _Reader.joined,
    "member_left": _Reader.left,
    "member_expired": _Reader.expired,
    "member_removed": _Reader.removed,
    "member_replaced": _Reader.replaced,
    "members_synced": _Reader.synced,
    "rebalance_started": _Reader.started,
    "rebalance_completed": _Reader.completed,
    "rebalance_failed": _Reader.failed,
    "group_emptied": _Reader.emptied,
    "epoch_bumped": _Reader.was_a_consumer_group,
    "group_deleted": _Reader.deleted,
    "requests_refused": _Reader.refused,
    "member_fenced": _Reader.refused,
}
KINDS: Final = ("group_created", *_HANDLERS)
"""The kinds of events that this module uses."""
