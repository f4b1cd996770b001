"""A group's history from the offsets log alone: from the records of its generations, in their order.

A record has the members and their assignments, the end of the join phase, and its own time. The events between the
records are inferred here. A new member joined. A missing member left, or its session expired, if its commits show that.
Otherwise a member joined again. The table `rebalances` has an estimate of the start of a rebalance. Without the table,
the start is a heartbeat interval before the end of the join phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.pipeline.defaults import HEARTBEAT_MS
from muster.pipeline.whatif.history import (
    AFTER,
    CLIENT,
    COMPLETED,
    EMPTIED,
    EXPIRED,
    JOIN_TIMEOUT,
    LEFT,
    LOG,
    REPLACED,
    Generation,
    History,
    Offer,
    Owned,
    Rejoin,
    Round,
    Stay,
    has_less,
    with_assigned,
)
from muster.pipeline.whatif.leader import claims, is_cooperative, keeps

Record = Mapping[str, Any]
"""A record of a generation.

It has `at_ms` (when it was logged), `is_tombstone`, `generation`, `protocol_type`, `protocol`, `leader`,
`state_timestamp_ms` and `members`. A member has `member_id`, `instance_id`, `client_id`, `host`, `session_timeout_ms`,
`rebalance_timeout_ms`, `topics` (null: its subscription cannot be read) and `assigned`. It may have its `subscription`
in base64.
"""

_LONG_MS: Final = 10_000
"""No member takes longer than this to join again, without other evidence."""
_NEARLY_MS: Final = 500
"""If the length of a rebalance differs by at most this from its members' timeout, the timeout ended it."""

Starts = Mapping[tuple[int, int], int]
"""When rebalances began, by the generation after the rebalance and the time at which its record was logged."""


def history_of(
    group: str,
    records: Sequence[Record],
    ends: Mapping[str, str] | None = None,
    end_ms: int = 0,
    starts: Starts | None = None,
) -> History:
    """The history of the group.

    `ends`: how memberships ended, by member id, if not by leaving. `starts`: when rebalances began.
    """
    reader = _Reader(group, ends or {}, starts or {})
    for record in records:
        reader.feed(record)
    return reader.finish(end_ms)


class _Reader:
    def __init__(self, group: str, ends: Mapping[str, str], starts: Starts) -> None:
        self.history = History(group, LOG)
        self._ends = ends
        self._starts = starts
        self._stays: dict[str, Stay] = {}
        self._shares: Mapping[str, Owned] = {}
        self._members: Mapping[str, Record] = {}
        self._counts: dict[str, int] = {}
        self._generation: int | None = None
        self._at_ms = 0
        self._created_ms: int | None = None
        self._order: list[tuple[int, Record, Mapping[str, Owned]]] = []
        self._delay_ms: int | None = None
        """The shortest known time that an empty group waited for more members; None: not known."""
        self._other_type: str | None = None
        """The protocol type of the group while its members were no consumers."""

    def feed(self, record: Record) -> None:
        history, at_ms = self.history, record["at_ms"]
        at_ms = max(at_ms, self._at_ms)
        first = self._generation is None
        if first:
            history.start_ms = at_ms
        if record["is_tombstone"]:
            self._deleted(at_ms)
        elif not record["members"]:
            self._emptied(record, at_ms, first)
        elif record["protocol_type"] != "consumer":
            self._other_type = record["protocol_type"]
        else:
            self._assigned(record, at_ms, first)
        self._at_ms = at_ms
        history.last_ms = at_ms

    def finish(self, end_ms: int) -> History:
        history = self.history
        history.end_ms = max(history.last_ms, end_ms)
        history.stays = list(self._stays.values())
        self._offer_all()
        if self._other_type is not None:
            was = "it was no group of consumers for a time" if history.generations else "it is no group of consumers"
            history.unusable = f"{was} but of type {self._other_type!r}"
        if history.unusable is None and not history.generations and history.given is None:
            history.unusable = "no generation of it is in the log"
        return history

    # ---- the kinds of records

    def _deleted(self, at_ms: int) -> None:
        if self._generation is not None:
            self.history.deleted.append(at_ms)
        self._generation = self._generation if self._generation is None else 0
        self._members, self._shares = {}, {}

    def _emptied(self, record: Record, at_ms: int, first: bool) -> None:
        if first:
            self.history.first_generation = record["generation"]
        if self._members:
            self._leave(list(self._members), self._at_ms + 1 if at_ms == self._at_ms else at_ms)
            self.history.rounds.append(Round(at_ms, "member_left", None, ended_ms=at_ms, outcome=EMPTIED))
            self.history.emptied.append(at_ms)
        elif record["generation"] == 0:
            self._created_ms = at_ms  # Kafka writes this record when the first member joins
        self._members, self._shares, self._generation = {}, {}, record["generation"]

    def _assigned(self, record: Record, at_ms: int, first: bool) -> None:
        history = self.history
        members = {one["member_id"]: one for one in record["members"]}
        if any(one["topics"] is None or one["assigned"] is None for one in members.values()):
            history.unusable = "the subscription or assignment of a member cannot be read"
            return
        shares: dict[str, Owned] = {
            name: {row["topic"]: row["partitions"] for row in one["assigned"]} for name, one in members.items()
        }
        number = record["generation"]
        if first:
            for name in members:
                self._new(members[name], record["protocol"], None)
            history.first_generation = number
            history.given = Generation(number, at_ms, record["protocol"], record["leader"], shares, at_ms)
            self._grow(shares, at_ms)
        elif number == self._generation:
            self._renamed(members, record["protocol"], at_ms)
        else:
            self._generated(record, members, shares, at_ms)
        self._members, self._shares, self._generation = members, shares, number

    def _renamed(self, members: Mapping[str, Record], protocol: str, at_ms: int) -> None:
        """Note a static member that returned without a rebalance."""
        for name, member in members.items():
            if name not in self._members:
                self._replace(member, protocol, at_ms)

    def _generated(
        self, record: Record, members: Mapping[str, Record], shares: Mapping[str, Owned], at_ms: int
    ) -> None:
        history, protocol = self.history, record["protocol"]
        known_began_ms = self._starts.get((record["generation"], at_ms))
        ended_ms = self._join_end_ms(record, at_ms)
        began_ms = stopped_ms = self._began_ms(len(members), known_began_ms, ended_ms, at_ms)
        ended_ms = max(ended_ms, began_ms)
        came = [name for name in members if name not in self._members]
        stayed = [name for name in members if name in self._members]
        gone = self._exchange(members, came, protocol, began_ms)
        grown = self._grow(shares, began_ms)
        follower = self._given_up(stayed) if is_cooperative(protocol) else None
        self._leave(gone, began_ms, ended_ms if came or follower else began_ms)
        if follower is None:
            cause, trigger = self._cause(record, members, came, gone, grown, began_ms)
        else:
            # this member joined again at once, whatever else happened until all had joined
            cause, trigger, began_ms = "metadata_changed", follower, min(self._at_ms + 1, at_ms)
            stopped_ms = began_ms if known_began_ms is None else stopped_ms
        late = self._too_late(gone, began_ms, ended_ms) if follower is not None else []
        for name in late:
            self._stays[name].end, self._stays[name].end_ms = JOIN_TIMEOUT, ended_ms
        waited = bool(late) or (bool(came) and any(self._stays[one].end == EXPIRED for one in gone))
        rejoined_ms = _rejoined_ms(began_ms, ended_ms, waited)
        joins = {name: began_ms if name == trigger else rejoined_ms for name in stayed}
        syncs = dict.fromkeys(members, at_ms)
        history.rounds.append(Round(began_ms, cause, trigger, joins, syncs, at_ms, ended_ms, COMPLETED))
        history.generations.append(
            Generation(record["generation"], at_ms, protocol, record["leader"], shares, stopped_ms)
        )
        self._offer_anew([members[name] for name in stayed], protocol, began_ms)

    def _began_ms(self, members: int, known_began_ms: int | None, ended_ms: int, at_ms: int) -> int:
        """When a rebalance began whose join phase ended at `ended_ms`. `known_began_ms`: its start, if known."""
        if self._members:
            began_ms = max(self._at_ms + 1, ended_ms - HEARTBEAT_MS if known_began_ms is None else known_began_ms)
        else:
            first_ms = self._first_join_ms(members, ended_ms, known_began_ms)
            began_ms = first_ms if known_began_ms is None else max(self._at_ms, known_began_ms)
        return min(began_ms, at_ms)

    def _exchange(self, members: Mapping[str, Record], came: Sequence[str], protocol: str, at_ms: int) -> list[str]:
        """Add the members that joined. Static members continue in their own places.

        Returns the members that are gone for good.
        """
        went = {name: one["instance_id"] for name, one in self._members.items() if name not in members}
        back = {members[name]["instance_id"] for name in came} & set(went.values()) - {None}
        for name in came:
            if members[name]["instance_id"] in back:
                self._replace(members[name], protocol, at_ms)
            else:
                self._new(members[name], protocol, at_ms)
        return [name for name, instance_id in went.items() if instance_id not in back]

    # ---- inferred facts

    def _cause(
        self,
        record: Record,
        members: Mapping[str, Record],
        came: Sequence[str],
        gone: Sequence[str],
        grown: bool,
        began_ms: int,
    ) -> tuple[str, str | None]:
        if came and not gone and all(self._is_back(members[name]) for name in came):
            # a static member was back, and all joined again: it offered another strategy or subscription
            self.history.rejoins.append(Rejoin(began_ms, came[0], AFTER))
            return "static_member_returned", came[0]
        if came:
            return "member_joined", came[0]
        if gone:
            return "member_left", gone[0]
        changed = [name for name in members if set(members[name]["topics"]) != set(self._members[name]["topics"])]
        if changed:
            self.history.rejoins.append(Rejoin(began_ms, changed[0], AFTER))
            return "subscription_changed", changed[0]
        self.history.rejoins.append(Rejoin(began_ms, None, AFTER))
        return ("partitions_changed" if grown else "leader_rejoined"), record["leader"]

    def _offer_all(self) -> None:
        """Complete the offers. A record has only the chosen strategy.

        A group that changed its strategy offered both strategies for a while.
        """
        chosen = dict.fromkeys(offers[0].name for stay in self.history.stays for _, offers in stay.offers)
        if len(chosen) > 1:
            for stay in self.history.stays:
                stay.offers = [
                    (ms, (first, *(Offer(name, first.topics) for name in chosen if name != first.name)))
                    for ms, (first, *_) in stay.offers
                ]

    def _is_back(self, member: Record) -> bool:
        instance_id = member["instance_id"]
        return instance_id is not None and any(one["instance_id"] == instance_id for one in self._members.values())

    def _given_up(self, stayed: Sequence[str]) -> str | None:
        """A member that lost partitions in the last generation, or None. It joins again by itself."""
        generations = self.history.generations
        before = generations[-2] if len(generations) > 1 else self.history.given
        if not generations or before is None:
            return None
        return next((name for name in stayed if has_less(before.shares.get(name, {}), self._shares[name])), None)

    def _join_end_ms(self, record: Record, at_ms: int) -> int:
        joined_ms = record["state_timestamp_ms"]
        return min(max(joined_ms, self._at_ms + 1), at_ms) if joined_ms is not None and joined_ms > 0 else at_ms

    def _first_join_ms(self, members: int, ended_ms: int, known_began_ms: int | None) -> int:
        """When the first member joined an empty group.

        It joined one delay before the join phase ended, or two delays if other members joined too. `known_began_ms`:
        the start of the rebalance, inferred from all groups of the log together. In a single group, a busy broker may
        have been late.
        """
        history, created_ms = self.history, self._created_ms
        self._created_ms = None
        since_ms = created_ms if known_began_ms is None else known_began_ms
        if since_ms is not None:
            delay_ms = (ended_ms - since_ms) // (1 if members == 1 else 2)
            # the delay is never 0. As far as is known, all members joined at once, and the replay must give them one
            # generation
            self._delay_ms = max(min(delay_ms, self._delay_ms or delay_ms), 1)
            history.initial_delay_ms = self._delay_ms
        if created_ms is not None:
            return created_ms
        wait_ms = history.initial_delay_ms * (1 if members == 1 else 2)
        return max(ended_ms - wait_ms, self._at_ms + 1)

    def _grow(self, shares: Mapping[str, Owned], since_ms: int) -> bool:
        """Set the numbers of partitions: topics have at least the assigned partitions.

        Returns whether a topic has more partitions than was known.
        """
        counts = with_assigned(self._counts, shares)
        if counts == self._counts:
            return False
        self._counts = counts
        self.history.counts.append((since_ms, counts))
        return True

    # ---- members

    def _new(self, member: Record, protocol: str, joined_ms: int | None) -> None:
        stay = Stay(
            member["member_id"],
            member["instance_id"],
            **{name: member[name] for name in CLIENT},
            joined_ms=joined_ms,
            joined_rank=AFTER,
        )
        stay.offers.append((joined_ms or 0, self._offers(member, protocol)))
        stay.remembers = joined_ms is not None and keeps(protocol) and claims(member.get("subscription") or "")
        self._stays[stay.member_id] = stay

    def _replace(self, member: Record, protocol: str, at_ms: int) -> None:
        for name, one in self._members.items():
            if one["instance_id"] is not None and one["instance_id"] == member["instance_id"]:
                self._stays[name].end, self._stays[name].end_ms = REPLACED, at_ms
        self._new(member, protocol, at_ms)

    def _offer_anew(self, members: Sequence[Record], protocol: str, at_ms: int) -> None:
        for member in members:
            stay, offers = self._stays[member["member_id"]], self._offers(member, protocol)
            if offers != stay.offers[-1][1]:
                stay.offers.append((at_ms, offers))

    def _leave(self, names: Sequence[str], left_ms: int, removed_ms: int | None = None) -> None:
        for name in names:
            stay = self._stays[name]
            stay.end, stay.end_ms, stay.end_rank = LEFT, left_ms, AFTER
            gone_ms = left_ms if removed_ms is None else removed_ms
            heard_ms = gone_ms - stay.session_timeout_ms
            if self._ends.get(name) == EXPIRED and heard_ms > (stay.joined_ms or 0):
                stay.end, stay.end_ms, stay.heard_ms = EXPIRED, gone_ms, heard_ms

    def _too_late(self, gone: Sequence[str], began_ms: int, ended_ms: int) -> list[str]:
        """Members for which a rebalance waited as long as it can, though they sent heartbeats meanwhile.

        The session of a member without heartbeats ends before, because it is shorter.
        """
        waits_ms = max((self._stays[name].rebalance_timeout_ms for name in self._members), default=0)
        if abs(ended_ms - began_ms - waits_ms) > _NEARLY_MS:
            return []
        return [name for name in gone if self._stays[name].session_timeout_ms <= waits_ms - _NEARLY_MS]

    def _offers(self, member: Record, protocol: str) -> tuple[Offer, ...]:
        return (Offer(protocol, tuple(member["topics"])),)


def _rejoined_ms(began_ms: int, ended_ms: int, waited: bool) -> int:
    """When members without other evidence joined again.

    `waited`: whether the rebalance waited for another member until a timeout.
    """
    is_long = waited or ended_ms - began_ms > _LONG_MS
    return min(ended_ms, began_ms + HEARTBEAT_MS) if is_long else ended_ms
