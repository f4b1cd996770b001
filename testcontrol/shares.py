"""The verbs on the records of share groups: a test reads them, ends locks, and has records delivered again.

Call the verbs from the server's event loop only. The core's own functions do the actions. So members, the state log and
the history see the same as when a lock ends by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from muster.coordinator.runtime.share_partitions.endings import DEAD_LETTER, NEVER_GONE, REJECTED, Ending
from muster.coordinator.runtime.share_partitions.led_partition import LedSharePartition
from muster.coordinator.server import Server, share_snapshots
from muster.coordinator.server.group_views import GroupView, RecordsView
from muster.coordinator.share.in_flight import ACKNOWLEDGED, ACQUIRED, AVAILABLE, TERMINAL, Run
from muster.coordinator.share.partition import Change
from muster.coordinator.share_state.persister import StateKey
from muster.testcontrol.errors import CannotBeDone

LAST: Final = 2**63 - 1
ALTER: Final = "Kafka delivers it again only after its administrators have set the group's start offset (reset_offsets)"


class Where(NamedTuple):
    """The records that a verb means: all, those of a topic, of a partition, or a range of offsets."""

    topic: str | None = None
    partition: int | None = None
    first: int = 0
    last: int = LAST

    def has(self, share: LedSharePartition) -> bool:
        """Whether a share partition may have such records."""
        return self.topic in (None, share.partition.topic) and self.partition in (None, share.key.partition)

    def overlaps(self, run: Run) -> bool:
        """Whether some records of a run have such offsets."""
        return run.first <= self.last and run.last >= self.first


class Outcomes:
    """How many records had which end in one partition, since the server's start."""

    __slots__ = ("accepted", "archived", "dead_letters", "released")

    def __init__(self) -> None:
        self.accepted = self.released = self.archived = self.dead_letters = 0

    def add(self, ending: Ending, change: Change, limit: int) -> None:
        """Count the records of a change that is durable now. `limit`: how often a record is delivered."""
        for first, last, state, deliveries in change.rows:
            records = last - first + 1
            if state == ACKNOWLEDGED:
                self.accepted += records
            elif state == AVAILABLE:
                self.released += records
            elif state in TERMINAL:
                cause = REJECTED if first in change.rejected else ending.cause
                if deliveries >= limit or cause in NEVER_GONE:
                    self.archived += records
                if cause == DEAD_LETTER:
                    self.dead_letters += records


class Shares:
    """See the module. `attach` is called after the server's start."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._outcomes: dict[StateKey, Outcomes] = {}
        self._changed: list[Callable[[], object]] = []

    def attach(self) -> None:
        """Count from now on. The call has no effect if the server's records are counted."""
        for node in self._server.nodes:
            node.share_partitions.on_ended = self._ended

    def _ended(self, key: StateKey, ending: Ending, change: Change) -> None:
        shares = self._server.nodes[0].share_partitions
        limit = shares.config(key.group_id).partition.max_deliveries
        self._outcomes.setdefault(key, Outcomes()).add(ending, change, limit)
        for callback in list(self._changed):
            callback()

    def when_changed(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back each time deliveries have ended. The returned function ends the calls."""
        self._changed.append(callback)
        return lambda: self._changed.remove(callback)

    def counted(self, group: GroupView) -> GroupView:
        """The group, with the counts of ended deliveries in its records."""
        if not group.records:
            return group
        found: dict[str, dict[int, RecordsView]] = {}
        for name, rows in group.records.items():
            topic = self._server.topics.by_name.get(name)
            for index, view in rows.items():
                key = None if topic is None else StateKey(group.group_id, topic.topic_id, index)
                its = self._outcomes.get(key) if key is not None else None
                its = its or Outcomes()
                counts = {count: getattr(its, count) for count in Outcomes.__slots__}
                found.setdefault(name, {})[index] = replace(view, **counts)
        return replace(group, records=found)

    # ---- acting

    def expire_locks(self, group_id: str, member_id: str | None, where: Where) -> int:
        """End the locks of these records now. `member_id` None: of any member. Returns how many records were held.

        Raises CannotBeDone if no such record is held.
        """
        count = 0
        for share in share_snapshots.led(self._server, group_id):
            if where.has(share):
                ended = _end_locks(share, member_id, where, self._server.clock.now().mono_ms)
                count += ended
                if ended:
                    share.expire_locks()
        if not count:
            whose = "nobody" if member_id is None else f"member {member_id}"
            raise CannotBeDone(f"{whose} holds such records in group {group_id}:\n{self._words(group_id)}")
        return count

    def deliver_again(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """Have a record delivered again. If a member holds the record, its lock ends now.

        Raises CannotBeDone where Kafka would not deliver the record again.
        """
        where = Where(topic, partition, offset, offset)
        name = f"record {offset} of {topic}-{partition}"
        share = next((one for one in share_snapshots.led(self._server, group_id) if where.has(one)), None)
        if share is None:
            raise CannotBeDone(f"no member of group {group_id} reads {topic}-{partition} now")
        core = share.core
        runs = [batch.state_at(offset) for batch in core.overlapping(offset, offset)]
        if offset < core.start_offset or (runs and runs[0].state in TERMINAL):
            raise CannotBeDone(f"the group is done with {name}: {ALTER}")
        if not runs:
            raise CannotBeDone(f"nobody has got {name} yet: it is delivered when a member asks for records")
        (run,) = runs
        if run.state == ACQUIRED and run.deliveries >= core.settings.max_deliveries:
            raise CannotBeDone(f"{name} was delivered {run.deliveries} times, as often as the group allows")
        if run.state == ACQUIRED:
            self.expire_locks(group_id, None, where)
        elif run.state != AVAILABLE:
            raise CannotBeDone(f"{name} is on its way to the dead-letter queue")

    def _words(self, group_id: str) -> str:
        held = [*_held(share_snapshots.led(self._server, group_id))]
        return "\n".join(f"  {line}" for line in held) or "  no record is held"


def _held(shares: Iterator[LedSharePartition]) -> Iterator[str]:
    for share in shares:
        for batch in share.core.batches:
            for run in batch.runs:
                if run.state == ACQUIRED:
                    place = f"{share.partition.topic}-{share.key.partition}"
                    yield f"member {run.member} holds {place}, offsets {run.first} to {run.last}"


def _end_locks(share: LedSharePartition, member_id: str | None, where: Where, now_ms: int) -> int:
    """Let the locks of these records end at this time. Returns how many records these are."""
    core, count = share.core, 0
    for batch in core.overlapping(max(where.first, core.start_offset), where.last):
        runs = [run for run in batch.runs if _is_held(run.state, run.member, member_id) and where.overlaps(run)]
        if any(run.first < where.first or run.last > where.last for run in runs):
            batch.is_divided = True
            runs = [run for run in batch.within(where.first, where.last) if _is_held(run.state, run.member, member_id)]
        for run in runs:
            run.lock_until_ms = now_ms
            count += len(run)
    return count


def _is_held(state: int, holder: str, member_id: str | None) -> bool:
    return state == ACQUIRED and member_id in (None, holder)
