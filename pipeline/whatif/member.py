"""A model member of a replay. It does what a client library does between the facts of its schedule.

It joins, syncs, gets its partitions, and joins again when the group rebalances. Under a cooperative strategy it joins
once more when it lost partitions. It reports its partitions and their generation as real clients do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from muster.assignors.assignor import Topic
from muster.coordinator.groups.classic.group import COMPLETING, PREPARING, ClassicGroup
from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Client, Command
from muster.pipeline.whatif.costs import Costs
from muster.pipeline.whatif.history import FAR, Generation, has_less
from muster.pipeline.whatif.leader import AssignmentBook, SentMetadata, is_cooperative, keeps
from muster.pipeline.whatif.processes import SILENT, SLOW, Clients, RealRound
from muster.pipeline.whatif.schedule import Part
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE: Final = "what-if"
"""The type must not be "consumer": here the metadata are numbers, and the core would try to read them."""
FOLLOW_MS: Final = 100
"""The time from an assignment that removes partitions until the member joins again, if the history does not show it."""
_FOLLOWS_WITHIN_MS: Final = 10_000
_AS_IT_WAS_MS: Final = 100
"""A join phase that ends within this time of the real one counts as the same."""
_LONG_MS: Final = 1_000
"""A member that syncs later than this sends heartbeats before."""


class ReplayView(Protocol):
    """What a member reads and changes of its replay (`replay.Replay`)."""

    ms: int
    group_id: str
    rebalance_number: int
    """The number of the rebalance."""
    real_round: RealRound | None
    """The real rebalance that is being replayed. It is None if no real rebalance began at this time."""
    assignor: str | None
    counts: dict[str, Topic]
    counts_id: tuple[tuple[str, int], ...]
    book: AssignmentBook
    clients: Clients
    costs: Costs
    core: GroupCore
    actors: list[Actor]
    by_member: dict[str, Actor]

    def group(self) -> ClassicGroup | None:
        """The group, if it exists."""

    def send(self, command: Command) -> None:
        """Send a request to the core."""

    def later(self, ms: int, act: Callable[..., None], *what: Any) -> None:
        """Call `act(*what)` at the time `ms`."""


class Actor:
    """One process of a schedule, as a member of the group."""

    __slots__ = ("_answer", "_generation", "_joined_in", "_protocols", "_replay", "_said", "_share", "_stay", "bump",
                 "client", "is_away", "member_id", "name", "part", "process")  # fmt: skip

    def __init__(self, replay: ReplayView, part: Part) -> None:
        self._replay = replay
        self.part = part
        self.process = part.process
        self.client = Client(part.process.stays[0].client_id, part.process.stays[0].host)
        self.member_id = ""
        self.name = part.process.slot if part.instance_id is not None else ""
        """The owner's name for the costs. A static member keeps its name when it returns."""
        self.bump = 0
        self.is_away = False
        self._answer: Any = None
        self._joined_in = -1
        """The number of the rebalance (`rebalance_number`) for which the member has joined."""
        self._share = 0
        self._generation = -1
        self._stay = 0
        self._said: tuple[SentMetadata, ...] = ()
        self._protocols: list[JoinGroupRequestProtocol] = []

    # ---- starting and stopping

    def ask(self) -> None:
        """Request a member id. The rebalance waits until the member uses the id."""
        if self._replay.group() is not None:
            self._join("", known=True)

    def start(self) -> None:
        """Start, without knowledge of an earlier process."""
        if self.member_id:
            self._join(self.member_id)
        else:
            self._join_anew()

    def go(self) -> str:
        """Stop. Returns the member id with which the member leaves; empty: it has none."""
        member_id, self.member_id = self.member_id, ""
        self.is_away = True
        return member_id

    def fall_silent(self) -> None:
        """Be silent from now on."""
        self.is_away = True
        if self.member_id in self._replay.by_member:
            self._replay.costs.vanished(self.name, self._replay.ms)

    def resume(self) -> None:
        """Continue after a silence, with the former state."""
        replay = self._replay
        self.is_away = False
        group = replay.group()
        member = None if group is None else group.members.get(self.member_id)
        if group is None or member is None:
            self._join_anew()
            return
        replay.costs.back(self.name, replay.ms)
        self.be_heard()
        if group.state == PREPARING and member.parked_join is None:
            self.join()
        elif group.state == COMPLETING and member.parked_sync is None and self.member_id in group.pending_sync:
            replay.later(replay.ms, self._sync, replay.rebalance_number, self._answer)

    def fenced(self) -> None:
        """Stop, because another process has the member's instance id."""
        self.member_id = ""
        self.is_away = True

    def be_heard(self) -> None:
        """Set in the core the time until which this member sends heartbeats."""
        replay, until_ms = self._replay, FAR
        for absence in self.part.absences:
            if absence.kind == SILENT and absence.from_ms >= replay.ms:
                until_ms = absence.from_ms
                break
        group = replay.group()
        if until_ms > replay.ms and group is not None and not self.is_away:
            request = HeartbeatRequest(replay.group_id, group.generation, self.member_id, None)
            replay.core.heartbeat(request, until_ms)

    def when_not_slow(self, ms: int) -> int:
        """The time `ms`; if the member is slow then, the time at which it polls again."""
        for absence in self.part.absences:
            if absence.kind == SLOW and absence.from_ms <= ms < absence.until_ms:
                return absence.until_ms
        return ms

    def stops_between(self, from_ms: int, until_ms: int) -> bool:
        """Whether the member stops, or falls silent, between these times."""
        return any(from_ms <= one.from_ms <= until_ms for one in self.part.absences)

    # ---- joining

    def join(self) -> None:
        """Send a JoinGroup with the member id."""
        self._join(self.member_id)

    def rejoin(self, rebalance_number: int) -> None:
        """Join again, because the member has noticed this rebalance."""
        replay = self._replay
        if rebalance_number == replay.rebalance_number != self._joined_in and not self.is_away and self.member_id:
            self._join(self.member_id)

    def _join_anew(self) -> None:
        self._generation = -1
        if is_cooperative(self._strategy()):
            self._share = 0  # the member lost the partitions that it had
        self._join("")

    def _strategy(self) -> str:
        offers = self.part.offers(self._replay.ms, self._replay.assignor)
        return offers[0].name if offers else ""

    def _join(self, member_id: str, *, known: bool = False) -> None:
        replay, part = self._replay, self.part
        request = JoinGroupRequest(
            replay.group_id,
            part.session_timeout_ms,
            part.rebalance_timeout_ms,
            member_id,
            part.instance_id,
            PROTOCOL_TYPE,
            self.offers(),
        )
        client, drawn = self.client, ""
        if not member_id:
            first, drawn = self._new_id(take=not known)
            if part.instance_id is None:
                client = Client(first, client.host)
            else:
                first = part.instance_id
            member_id = f"{first}-{drawn}"
            if not known:
                self.member_id = member_id
        if not known:
            replay.by_member[member_id] = self
            if part.instance_id is None:
                self.name = member_id
        if not known:
            self._joined_in = replay.rebalance_number  # a rebalance that begins with this request answers at once
        replay.send(JoinCommand(request, self._joined, client, drawn, known, True))

    def _new_id(self, *, take: bool) -> tuple[str, str]:
        """Both parts of the member's real id. If it joins more often than in reality, both parts of a new id."""
        stays, number = self.process.stays, self._stay
        if take:
            self._stay += 1
        if number < len(stays):
            stay = stays[number]
            known = stay.client_id if stay.instance_id is None else stay.instance_id
            if stay.member_id.startswith(f"{known}-"):
                return known, stay.member_id[len(known) + 1 :]
            first, dash, drawn = stay.member_id.rpartition("-")
            if dash:
                return first, drawn
        return stays[0].client_id, f"{self.process.index}.{number}"

    def offers(self) -> list[JoinGroupRequestProtocol]:
        """The protocols and the metadata for the next JoinGroup."""
        replay = self._replay
        offers = self.part.offers(replay.ms, replay.assignor)
        if offers and is_cooperative(offers[0].name):
            self._give_up(offers[0].topics)
        share, generation, bump = self._share, self._generation, self.bump
        said = tuple(
            SentMetadata(topics, share, generation, bump) if keeps(name) else SentMetadata(topics, 0, -1, bump)
            for name, topics in offers
        )
        if said != self._said or len(offers) != len(self._protocols):
            self._said = said
            self._protocols = [
                JoinGroupRequestProtocol(one.name, replay.book.metadata_bytes(what))
                for one, what in zip(offers, said, strict=True)
            ]
        return self._protocols

    def _give_up(self, topics: Sequence[str]) -> None:
        """Before joining, give up topics that the member does not subscribe to any more, as Java's consumer does."""
        book = self._replay.book
        had = book.shares[self._share]
        if self._share and any(topic not in topics for topic in had):
            self._share = book.number({topic: rows for topic, rows in had.items() if topic in topics})

    def _joined(self, response: Any) -> None:
        replay, error = self._replay, response.error_code
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            if not self.is_away and self.member_id not in replay.by_member:
                self._join_anew()
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.fenced()
        elif not error:
            self._answer, self._generation = response, response.generation_id
            ms = self._sync_ms()
            if ms > replay.ms + _LONG_MS:
                self.be_heard()
            replay.later(ms, self._sync, replay.rebalance_number, response)

    def _sync_ms(self) -> int:
        """When the member sends its SyncGroup: at the time of the real one, or after the usual time."""
        replay, real_round = self._replay, self._replay.real_round
        ms = replay.ms
        usual_ms = ms + replay.clients.sync_ms
        if real_round is not None and real_round.round.joined_ms is not None:
            ended_ms, synced_ms = real_round.round.joined_ms, real_round.syncs.get(self.process.index)
            is_as_it_was = abs(ms - ended_ms) <= _AS_IT_WAS_MS
            if synced_ms is not None:
                return max(synced_ms, ms) if is_as_it_was else ms + max(synced_ms - ended_ms, 0)
            if is_as_it_was and real_round.round.ended_ms >= ms:
                # the member had not synced when the real assignment was complete, or when the real rebalance failed
                usual_ms = max(usual_ms, real_round.round.ended_ms + 1)
        return self.when_not_slow(usual_ms)

    def _sync(self, rebalance_number: int, joined: Any) -> None:
        replay = self._replay
        if self.is_away or (rebalance_number != replay.rebalance_number and not joined.skip_assignment):
            return
        rows = []
        if joined.members and not joined.skip_assignment:
            members = [(one.member_id, one.group_instance_id, one.metadata) for one in joined.members]
            slots = {one.member_id: replay.by_member[one.member_id].process.slot for one in joined.members}
            shares = replay.book.assign(joined.protocol_name, members, replay.counts, replay.counts_id, slots)
            rows = [SyncGroupRequestAssignment(member_id, share) for member_id, share in shares]
        request = SyncGroupRequest(
            replay.group_id, self._generation, self.member_id, self.part.instance_id, None, None, rows
        )
        replay.send(Command(request, self._synced, self.client))

    def _synced(self, response: Any) -> None:
        error = response.error_code
        if error == ErrorCode.UNKNOWN_MEMBER_ID and not self.is_away and self.member_id not in self._replay.by_member:
            self._join_anew()
        if error or self.is_away:
            return  # another rebalance has begun, and the time of the next join is already set
        book, before = self._replay.book, self._share
        self._share = int(response.assignment) if response.assignment else 1
        self.be_heard()
        lost = before > 1 and before != self._share and has_less(book.shares[before], book.shares[self._share])
        if lost and is_cooperative(response.protocol_name):
            self._replay.later(self._follow_ms(), self._follow, self._generation)

    def _follow_ms(self) -> int:
        """When the member joins again because it had to give up partitions."""
        ms = self._replay.ms
        joins = self.process.joins_ms
        at = bisect_left(joins, ms)
        return joins[at] if at < len(joins) and joins[at] <= ms + _FOLLOWS_WITHIN_MS else ms + FOLLOW_MS

    def _follow(self, generation: int) -> None:
        group = self._replay.group()
        if group is not None and not self.is_away and group.generation == generation and group.state != PREPARING:
            self.join()

    def set_member(self, member_id: str, share: int, generation: int) -> None:
        """Become a member that was already in the group when the history began."""
        self.member_id = member_id
        self._share, self._generation, self._stay = share, generation, 1
        self._replay.by_member[member_id] = self
        if self.part.instance_id is None:
            self.name = member_id


def initial_record(replay: ReplayView, given: Generation | None) -> tuple[GroupMetadataKey, GroupMetadataValue]:
    """The record of the generation with which the history begins.

    Without a generation, it is the record of an empty group.
    """
    history = replay.clients.history
    key = GroupMetadataKey(replay.group_id)
    if given is None:
        return key, GroupMetadataValue(PROTOCOL_TYPE, history.first_generation, None, None, history.start_ms, [])
    members = []
    for member_id, share in given.shares.items():
        actor = replay.actors[replay.clients.by_member[member_id].index]
        number = replay.book.number(share)
        actor.set_member(member_id, number, given.number)
        part = actor.part
        members.append(
            MemberMetadata(
                member_id,
                part.instance_id,
                part.process.stays[0].client_id,
                part.process.stays[0].host,
                part.rebalance_timeout_ms,
                part.session_timeout_ms,
                actor.offers()[0].metadata,
                b"%d" % number,
            )
        )
    protocol = replay.assignor or given.protocol
    return key, GroupMetadataValue(PROTOCOL_TYPE, given.number, protocol, given.leader, history.start_ms, members)
