"""TxnOffsetCommit of a few offsets, without a job. It makes the calls of `api.transactions.txn_offset_commit`."""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.transactions.txn_offset_commit import knows_of
from muster.coordinator.api.transactions.verification import heard, question
from muster.coordinator.groups.offsets.txn_commit import TxnCommitCommand, same_for_all
from muster.coordinator.log import LogError
from muster.coordinator.log.producers.verification import Guard
from muster.coordinator.runtime.append_errors import append_error
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.coordinator.transactions.commands import PartitionErrors
from muster.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

MOST_ROWS: Final = 50
"""So many offsets are checked without a pause."""


class _FewOffsets:
    """A request that waits for the coordinator of its transaction, and receives its answer."""

    __slots__ = ("_context", "_guard", "_producer", "_request", "_respond", "_shard")

    def __init__(
        self, context: RequestContext, request: TxnOffsetCommitRequest, respond: Respond, shard: GroupShard,
        producer: Producer, guard: Guard | None,
    ) -> None:  # fmt: skip
        self._context = context
        self._request = request
        self._respond = respond
        self._shard = shard
        self._producer = producer
        self._guard = guard

    def __call__(self, response: PartitionErrors) -> None:
        """The coordinator has answered."""
        context = self._context
        if context.channel.closed:
            return
        try:
            if response.errors:
                (error,) = response.errors.values()
                told = append_error(ApiError(heard(error, knows_of(context.api_version))))
                self._respond(same_for_all(self._request, told))
            else:
                self.commit()
        except Exception as error:  # noqa: BLE001 - a bug costs this connection, not those that are answered with it
            context.channel.fault(error)

    def commit(self) -> None:
        """Commit the offsets: the transaction has the group's partition of __consumer_offsets."""
        shard, producer = self._shard, self._producer
        refusal = shard.append_error(producer, self._guard)
        shard.submit(TxnCommitCommand(self._request, self._respond, self._context.client, refusal), producer)


def take(node: Node, context: RequestContext, request: TxnOffsetCommitRequest, respond: Respond) -> bool:
    """Take a request for a few offsets. They are committed after the coordinator has added the partition for them."""
    transactional_id, group_id = request.transactional_id, request.group_id
    if not (transactional_id and group_id and node.transactions.routing.ready and _is_fine(node, context, request)):
        return False
    shard, knows = node.routing.shard(group_id), knows_of(context.api_version)
    if not (shard.active and (knows.adds or node.topics.settings.transaction_partition_verification_enable)):
        return False
    log = shard.runtime.log
    if not log.knows_producers:
        return False
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        guard = log.producers.verification(
            *producer, -1, supports_epoch_bump=knows.adds, now_ms=node.clock.now().wall_ms
        )
    except LogError:
        return False
    one = _FewOffsets(context, request, respond, shard, producer, guard)
    if guard is None:
        one.commit()
    else:
        topics = {GROUP_OFFSETS_TOPIC: (shard.partition,)}
        question(node, context.client, transactional_id, producer, topics, knows, one)
    return True


def _is_fine(node: Node, context: RequestContext, request: TxnOffsetCommitRequest) -> bool:
    """Whether the client may commit these offsets, their partitions exist, and each topic is named once."""
    topics, allows = request.topics, node.authorizer.allows
    if not topics or len(topics) > MOST_ROWS or sum([len(topic.partitions) for topic in topics]) > MOST_ROWS:
        return False
    if not allows(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id, log_denied=False):
        return False
    if not allows(context, Operation.READ, ResourceType.GROUP, request.group_id, log_denied=False):
        return False
    names = [topic.name for topic in topics]
    may_read, by_name = (
        node.authorizer.allowed(context, Operation.READ, ResourceType.TOPIC, names, log_denied=False),
        node.topics.image.by_name,
    )
    if len(names) > 1 and len(set(names)) < len(names):
        return False
    for topic in topics:
        found = by_name.get(topic.name)
        if found is None or topic.name not in may_read or not topic.partitions:
            return False
        for row in topic.partitions:
            if not 0 <= row.partition_index < found.partitions:
                return False
    return True
