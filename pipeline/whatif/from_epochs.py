"""A KIP-848 group's history, from its epochs in the offsets log (rows of `epoch_states.EPOCHS`, as JSON).

The records say which members joined and left, and each member's subscription and partitions. They also say, to the ms,
when each partition changed its owner. The table `memberships` says how each member ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from muster.pipeline.defaults import EPOCH_HEARTBEAT_MS, EPOCH_SESSION_MS, REBALANCE_TIMEOUT_MS
from muster.pipeline.whatif.history import (
    AFTER,
    CONSUMER,
    EXPIRED,
    LEFT,
    LOG,
    REPLACED,
    Generation,
    History,
    Incident,
    Offer,
    Owned,
    Rejoin,
    Stay,
    with_assigned,
)

Row = Mapping[str, Any]
"""An epoch, with `at_ms`, `is_tombstone`, `generation`, `protocol`, `state_timestamp_ms`, `members`, `owners`, `takes`
and `change`.
"""
SERVER: Final = "uniform"
"""The name of the strategy if members do not assign. The server's strategy is in `History.assignor`."""


def history_of(
    group: str,
    rows: Iterable[Row],
    died: Mapping[tuple[str, int], int] | None = None,
    end_ms: int = 0,
    targets: Sequence[int] = (),
) -> History:
    """The history of the group. `targets`: when target assignments were made.

    `died`: the last sign of life of each member whose session ended, by its id and that end. Other members left.
    """
    reader = _Reader(group, died or {})
    row: Row | None = None
    for following in rows:
        if row is not None:
            reader.feed(row, following)
        row = following
    if row is not None:
        reader.feed(row, None)
    return reader.finish(end_ms, targets)


def protocol_changed(rows: Sequence[Row], records: Sequence[Row]) -> tuple[int, bool]:
    """When a group last changed its protocol while it had members (0: never), and whether it is classic since then.

    `records`: its classic generations. During the change, the group has members of both protocols.
    """
    classic_ms = max((one["at_ms"] for one in records if not one["is_tombstone"] and one["members"]), default=0)
    mixed_ms = max((one["at_ms"] for one in rows if any(map(_is_classic, one["members"] or ()))), default=0)
    consumer_ms = max((one["at_ms"] for one in rows if one["members"]), default=0)
    return (consumer_ms, True) if classic_ms > consumer_ms else (max(classic_ms, mixed_ms), False)


def _is_classic(member: Row) -> bool:
    return member["session_timeout_ms"] is not None


class _Reader:
    def __init__(self, group: str, died: Mapping[tuple[str, int], int]) -> None:
        self.history = History(group, LOG, CONSUMER, session_ms=_session_ms(died))
        self._died = died
        self._stays: dict[str, Stay] = {}
        """The last stay of each member id."""
        self._members: dict[str, Row] = {}
        self._counts: dict[str, int] = {}
        self._is_first = True
        self._number: int | None = None

    def feed(self, row: Row, following: Row | None) -> None:
        history, began_ms, at_ms = self.history, row["state_timestamp_ms"], row["at_ms"]
        history.last_ms = max(history.last_ms, at_ms)
        if row["is_tombstone"]:
            self._end_of_group(at_ms)
            return
        members = {one["member_id"]: one for one in row["members"] or ()}
        shares = {name: _owned(one["assigned"]) for name, one in members.items()}
        if self._is_first and _is_given(row):
            self._begin(row, members, shares)
            return
        if self._is_first:
            history.start_ms = began_ms
            self._is_first = False
        self._real_round(row, members, began_ms)
        history.assignor = row["protocol"] or history.assignor
        counts = with_assigned(self._counts, shares)
        if counts != self._counts:
            self._counts = counts
            history.counts.append((began_ms, counts))
        self._take(row)
        # otherwise only a static member returned under another id
        is_new, self._number = row["generation"] != self._number, row["generation"]
        is_overtaken = following is not None and following["state_timestamp_ms"] <= at_ms
        if members and is_new and is_overtaken:
            history.overtaken.add(row["generation"])
        elif members and is_new:
            history.generations.append(Generation(row["generation"], at_ms, SERVER, None, shares, began_ms))
            history.incidents.append(Incident(at_ms, "settled"))
        elif not members:
            history.emptied.append(began_ms)
            history.incidents.append(Incident(began_ms, "emptied"))
        self._members = members

    def finish(self, end_ms: int, targets: Sequence[int]) -> History:
        history = self.history
        history.end_ms = max(history.last_ms, end_ms)
        # in a replay, heartbeats come at other times of their intervals, and so do their effects
        history.last_ms = min(history.end_ms, history.last_ms + 2 * EPOCH_HEARTBEAT_MS)
        since_ms = history.start_ms if history.given is None else history.start_ms + 1
        history.incidents += [Incident(ms, "target") for ms in targets if since_ms <= ms]
        if history.unusable is None and not history.generations and history.given is None:
            history.unusable = "no epoch of it is in the log"
        return history

    def _begin(self, row: Row, members: Mapping[str, Row], shares: Mapping[str, Owned]) -> None:
        """The log begins in the middle of the group's life. The state at that time is the start of the history."""
        history, at_ms = self.history, row["at_ms"]
        self._is_first, self._number = False, row["generation"]
        history.start_ms, history.first_generation = at_ms, row["generation"]
        history.assignor = row["protocol"]
        for name, one in members.items():
            self._new(name, one, None)
        self._counts = with_assigned({}, shares)
        history.counts.append((at_ms, self._counts))
        if members:
            history.given = Generation(row["generation"], at_ms, SERVER, None, shares, at_ms)
        self._members = dict(members)

    def _end_of_group(self, at_ms: int) -> None:
        if not self._is_first:
            self.history.deleted.append(at_ms)
        self._members = {}

    # ---- members

    def _real_round(self, row: Row, members: Mapping[str, Row], at_ms: int) -> None:
        """Note which members joined, which left, and which changed their subscription."""
        gone = {one["member"]["member_id"]: one for one in (row["change"] or {}).get("gone") or ()}
        instances = {one["instance_id"]: name for name, one in self._members.items() if one["instance_id"] is not None}
        for name, one in members.items():
            if name not in self._members and (name not in self._stays or self._stays[name].end is not None):
                before = instances.get(one["instance_id"])
                if before is not None and before not in members:
                    self._replaced(before, at_ms)
                    gone.pop(before, None)
                is_same = name in self._stays
                self._new(name, one, at_ms)
                # a client keeps its id as long as it lives. So this member was removed, or left, and continues
                self._stays[name].remembers = is_same
            elif _topics(one) != self._stays[name].offers[-1][1][0].topics:
                self._stays[name].offers.append((at_ms, (Offer(SERVER, _topics(one)),)))
                self.history.rejoins.append(Rejoin(at_ms, name, AFTER))
        for name, how in gone.items():
            # a member that joined and left between two states is not in the log
            if name in self._stays and self._stays[name].end is None:
                self._gone(name, how)
        for name in self._members:
            if name not in members and self._stays[name].end is None:
                self._gone(name, {"at_ms": at_ms, "heard_ms": at_ms, "away_ms": None})

    def _new(self, name: str, one: Row, joined_ms: int | None) -> None:
        self._stays[name] = stay = Stay(
            name,
            one["instance_id"],
            one["client_id"] or "",
            one["host"] or "",
            self.history.session_ms,
            one["rebalance_timeout_ms"] or REBALANCE_TIMEOUT_MS,
            joined_ms=joined_ms,
            joined_rank=AFTER,
            offers=[(joined_ms or 0, (Offer(SERVER, _topics(one)),))],
        )
        self.history.stays.append(stay)

    def _replaced(self, name: str, at_ms: int) -> None:
        stay = self._stays[name]
        stay.end, stay.end_ms = REPLACED, at_ms
        self.history.incidents.append(Incident(at_ms, "back", self._name(name)))

    def _gone(self, name: str, how: Row) -> None:
        stay, at_ms = self._stays[name], how["at_ms"]
        stay.end, stay.end_ms, stay.end_rank = LEFT, at_ms, AFTER
        if how["away_ms"] is not None or (name, at_ms) in self._died:
            silent_ms = self._died[name, at_ms] if how["away_ms"] is None else how["away_ms"]
            stay.end, stay.heard_ms = EXPIRED, max(silent_ms, stay.joined_ms or 0)
            self.history.incidents.append(Incident(stay.heard_ms, "vanished", self._name(name)))
        self.history.incidents.append(Incident(at_ms, "gone", self._name(name)))

    def _name(self, member_id: str) -> str:
        """The name of the member. A static member that returns keeps its name."""
        return self._stays[member_id].instance_id or member_id

    def _take(self, row: Row) -> None:
        """Note which partitions changed their owners."""
        takes = row["takes"] or ()
        # the last owners in the list are those that got a partition in this epoch
        owners = (row["owners"] or ())[-len(takes) :] if takes else ()
        for take, owner in zip(takes, owners, strict=True):
            who, place = owner["member_id"], (take["topic"], take["partition"])
            if who in self._stays:
                happening = Incident(take["at_ms"], "took", self._name(who), place, take["paused_ms"])
                self.history.incidents.append(happening)


def _session_ms(died: Mapping[tuple[str, int], int]) -> int:
    """The length of sessions: how long dead members had been silent, or else the server's default."""
    longest_ms = max((end_ms - last_ms for (_, end_ms), last_ms in died.items()), default=EPOCH_SESSION_MS)
    return max(-(-longest_ms // _SECOND) * _SECOND, _LEAST_SESSION_MS)


_SECOND: Final = 1_000
_LEAST_SESSION_MS: Final = 6_000
"""No session timeout is shorter. A shorter silence means that the last heartbeat came before the last commit."""


def _is_given(row: Row) -> bool:
    """Whether the log begins in the middle of the group's life."""
    change = row["change"]
    return change is None or change["before"] is None or change["members_before"] > 0


def _owned(assigned: Sequence[Row] | None) -> Owned:
    return {share["topic"]: share["partitions"] for share in assigned or ()}


def _topics(one: Row) -> tuple[str, ...]:
    return tuple(sorted(one["topics"] or ()))
