"""AlterPartitionReassignments and ListPartitionReassignments: other replicas for a partition (KIP-455, KIP-860).

The brokers share the logs, so no data has to be copied. A reassignment is complete at once, and none is ever in
progress.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.coordinator.api.cluster.refusals import may_alter_cluster, may_describe_cluster
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.durable import until_durable
from muster.coordinator.api.node import Node, Respond, in_steps
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics import leadership
from muster.coordinator.topics.creation import check_brokers
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from muster.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@in_steps(forwarded=True)
def handle_alter_partition_reassignments(
    node: Node, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Job[AlterPartitionReassignmentsResponse]:
    """Each partition gets the named replicas. Its leader stays if it is one of them; otherwise the first live replica
    leads. A reassignment cannot be cancelled, because none is in progress.
    """
    answer = AlterPartitionReassignmentsResponse(error_message=None)
    if not may_alter_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answer.error_code, answer.error_message = code, error_message(code)
        answer.responses = yield from _all(request, code, answer.error_message)
        return answer
    changed: list[ReassignablePartitionResponse] = []
    answer.responses = topics = list[ReassignableTopicResponse]()
    for topic in request.topics:
        rows: list[ReassignablePartitionResponse] = []
        topics.append(ReassignableTopicResponse(topic.name, rows))
        for wanted in topic.partitions:
            row = ReassignablePartitionResponse(wanted.partition_index, 0, None)
            rows.append(row)
            try:
                yield from _reassign(
                    node,
                    topic.name,
                    wanted.partition_index,
                    wanted.replicas,
                    keeps_number=not request.allow_replication_factor_change,
                )
                changed.append(row)
            except ApiError as refusal:
                row.error_code, row.error_message = refusal.error_code, refusal.message
            yield None
        yield None
    answer.allow_replication_factor_change = request.allow_replication_factor_change
    yield from until_durable(node, changed)
    return answer


def _all(
    request: AlterPartitionReassignmentsRequest, code: int, message: str | None
) -> Job[list[ReassignableTopicResponse]]:
    """The same error for each partition, besides that of the whole request (AlterPartitionReassignmentsRequest on
    Kafka).
    """
    topics: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        rows: list[ReassignablePartitionResponse] = []
        for wanted in topic.partitions:
            rows.append(ReassignablePartitionResponse(wanted.partition_index, code, message))
            yield None
        topics.append(ReassignableTopicResponse(topic.name, rows))
        yield None
    return topics


def _reassign(
    node: Node, name: str, partition: int, replicas: Sequence[int] | None, *, keeps_number: bool
) -> Job[None]:
    """Reassign one partition. Raises `ApiError`."""
    topics = node.topics
    topic = topics.state.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= partition < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{partition}.")
    if replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_brokers(replicas, None, topics.home)
    place = Place(topic, partition)
    if keeps_number and len(replicas) != len(place.state.replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(place.state.replicas)} to {len(replicas)}",
        )
    if node.controller is not None:
        yield from node.controller.changing(
            lambda: leadership.reassigned(place, replicas, leadership.living(topics.state), topics.home.directory_id),
            place,
        )


def handle_list_partition_reassignments(
    node: Node,
    context: RequestContext,
    request: ListPartitionReassignmentsRequest,  # noqa: ARG001 - every handler has this shape
    respond: Respond,
) -> None:
    """List no partitions: no reassignment is ever in progress."""
    error_code = 0 if may_describe_cluster(node, context) else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    respond(ListPartitionReassignmentsResponse(error_code=error_code, error_message=None))
