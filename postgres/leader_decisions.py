"""The live node with the lowest id decides which node leads a partition. A node that stops hands over its partitions.

The deciding node watches the leases of other nodes: a node whose lease is over leads nothing from then on. If two nodes
think that they have the lowest live id, they do no harm. A decision counts only at the end of the metadata log, where
only one decision is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, to_its_end
from muster.coordinator.topics import leader_balancer, leadership
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.postgres.settings import ClusterSettings
from muster.postgres.shared_metadata_log import SharedMetadataLog
from muster.postgres.store import NodeRegistration, Store
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord

MAX_MOVES: Final = 1_000
"""The most optional moves of leaders in one check (ReplicationControlManager's MAX_ELECTIONS_PER_IMBALANCE)."""
WRITTEN_AT_ONCE: Final = 1_000
"""The most records that move leaders in one row of the metadata log."""

log = structlog.get_logger("muster.cluster")


def _held(registrations: Iterable[NodeRegistration]) -> list[int]:
    return [one.node_id for one in registrations if one.remaining_ms > 0 and one.epoch > 0]


class LeaderDecisions:
    """See the module."""

    def __init__(
        self,
        registration: NodeRegistration,
        store: Store,
        metadata_log: SharedMetadataLog,
        clock: Clock,
        settings: ClusterSettings,
        *,
        others_until_ms: int,
    ) -> None:
        """`others_until_ms`: before this time no node counts as dead."""
        self._registration = registration
        self._store = store
        self._metadata_log = metadata_log
        self._clock = clock
        self._settings = settings
        self._others_until_ms = others_until_ms
        self._settled: tuple[int, tuple[int, ...]] | None = None
        """The metadata log's end and the live nodes for which nothing had to be decided."""

    def changing(self, decide: Callable[[], PartitionChangeRecord | None], place: Place) -> Job[None]:
        """Change the leader of a partition as `decide` says, unless the topic is deleted. Raises `ApiError`."""
        while self._metadata_log.topics.state.topics_by_id.get(place.topic.topic_id) is place.topic:
            record = decide()
            if record is None or (yield from self._metadata_log.writing([record])):
                return

    def unregistering(self, broker_id: int) -> Job[None]:
        """Let others lead the partitions of a broker, and remove the broker. Raises `ApiError`."""
        state = self._metadata_log.topics.state
        # imported here: most nodes never unregister a broker
        from muster.protocol.messages.metadata_records.unregister_broker_record import UnregisterBrokerRecord

        while True:
            registered = state.brokers.get(broker_id)
            if registered is None:
                what = f"Broker ID {broker_id} is not currently registered"
                raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, what)
            record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=registered.epoch)
            if (yield from self._moving(leadership.living(state, without=(broker_id,)), after=[record])):
                log.info("a broker is no longer registered", node=broker_id)
                return

    def _moving(
        self,
        live: Sequence[int],
        *,
        before: Sequence[Message] = (),
        dead: Mapping[int, int] | None = None,
        after: Sequence[Message] = (),
    ) -> Job[bool]:
        """Move the leadership of all partitions to live nodes, and write the records `before` first and `after` last.
        False: another node has written meanwhile, so the caller must decide again. Raises `ApiError`.

        Each row has a part of the records, so that no reader of a row blocks for long. A part of the rows leaves the
        cluster no worse than before. The next node that decides writes the other rows.
        """
        state, prefers = self._metadata_log.topics.state, self._settings.auto_leader_rebalance_enable
        version = state.version
        moves = yield from leader_balancer.changes(state, live, prefers=prefers, max_moves=MAX_MOVES)
        records = [*before, *moves, *after]
        for start in range(0, len(records), WRITTEN_AT_ONCE):
            if state.version != version:
                return False
            part = records[start : start + WRITTEN_AT_ONCE]
            if not (yield from self._metadata_log.writing(part, dead if start == 0 else None)):
                return False
            version += len(part)
        return True

    # -- deciding

    async def decide(self) -> bool:
        """Decide what is due. False: a live node has a lower id. Raises `ApiError` and the errors of the store."""
        registrations = await self._store.registrations()
        state = self._metadata_log.topics.state
        held = set(_held(registrations))
        registered = [one for one, broker in state.brokers.items() if not broker.fenced]
        live = sorted(one for one in registered if one in held)
        if not live or live[0] != self._registration.node_id:
            return False
        gone = sorted(one for one in registered if one not in held)
        if gone and self._clock.mono_ms() < self._others_until_ms:
            # Otherwise the first node that returns would fetch all logs that the others lead. The others would then
            # fetch their logs again, one node after the other.
            return True
        epochs = {one.node_id: one.epoch for one in registrations}
        dead = {one: epochs[one] for one in gone if epochs.get(one, 0) > 0}
        checked_state = (state.version, tuple(live))
        if not gone and checked_state == self._settled:
            return True
        fenced = [leadership.fenced(state, one) for one in gone]
        is_done = await to_its_end(self._metadata_log.job_queue, self._moving(live, before=fenced, dead=dead))
        if is_done and state.version == checked_state[0]:
            self._settled = checked_state
        for one in gone if is_done else ():
            log.warning("a node has died: other nodes lead its partitions", node=one)
        return True

    async def hand_over(self) -> bool:
        """Let others lead what this node leads, and fence this node. False: another node has written meanwhile. Raises
        `ApiError` and the errors of the store.
        """
        state, me = self._metadata_log.topics.state, self._registration.node_id
        held = _held(await self._store.registrations())
        live = [one for one in leadership.living(state, without=(me,)) if one in held]
        broker = state.brokers.get(me)
        fenced = [] if broker is None or broker.fenced else [leadership.fenced(state, me)]
        return await to_its_end(self._metadata_log.job_queue, self._moving(live, after=fenced))
