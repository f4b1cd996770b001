"""Leaders and replicas: ElectLeaders (KIP-183, KIP-460), AlterPartitionReassignments and ListPartitionReassignments
(KIP-455, KIP-860), and UnregisterBroker (KIP-631).

The brokers share the logs, so no data is copied. A reassignment is complete at once, and never in progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from muster.coordinator.api.cluster.describe_cluster import may_alter_cluster, may_describe_cluster
from muster.coordinator.api.context import RequestContext, elections_have_one_error
from muster.coordinator.api.many_rows import until_durable
from muster.coordinator.api.node import Node, Respond, in_steps
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics import leadership
from muster.coordinator.topics.creation import check_brokers
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.metadata_state import NO_LEADER
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from muster.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from muster.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""The id in Kafka's ElectionType. An unclean election loses no records in Muster: every replica has the whole log."""


@in_steps(forwarded=True)
def handle_elect_leaders(
    node: Node, context: RequestContext, request: ElectLeadersRequest
) -> Job[ElectLeadersResponse]:
    """Elect leaders of the named partitions, or of all; then the answer has only partitions that needed an election."""
    if not may_alter_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return (yield from _refuse_elections(context, request, code, error_message(code)))
    if request.election_type not in (PREFERRED, UNCLEAN):
        what = f"Unknown election type {request.election_type}"
        return (yield from _refuse_elections(context, request, ErrorCode.INVALID_REQUEST, what))
    asked = request.topic_partitions
    wanted: Iterator[tuple[str, Iterable[int]]] = (
        ((topic.name, range(len(topic.partitions))) for topic in node.topics.open.walk())
        if asked is None
        else ((topic.topic, topic.partitions) for topic in asked)
    )
    results: list[ReplicaElectionResult] = []
    elected: list[PartitionResult] = []
    for name, partitions in wanted:
        rows: list[PartitionResult] = []
        results.append(ReplicaElectionResult(name, rows))
        for partition in partitions:
            row = PartitionResult(partition, 0, None)
            try:
                yield from _elect(node, name, partition, request.election_type)
                elected.append(row)
            except ApiError as refusal:
                row.error_code, row.error_message = refusal.error_code, refusal.message
            if asked is not None or row.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                rows.append(row)
            yield None
        yield None
    yield from until_durable(node, elected)
    return ElectLeadersResponse(replica_election_results=results)


def _refuse_elections(
    context: RequestContext, request: ElectLeadersRequest, code: int, message: str
) -> Job[ElectLeadersResponse]:
    answer = ElectLeadersResponse(error_code=code if elections_have_one_error(context.api_version) else 0)
    answer.replica_election_results = results = list[ReplicaElectionResult]()
    for topic in request.topic_partitions or ():
        rows: list[PartitionResult] = []
        results.append(ReplicaElectionResult(topic.topic, rows))
        for partition in topic.partitions:
            rows.append(PartitionResult(partition, code, message))
            yield None
        yield None
    return answer


def _elect(node: Node, name: str, partition: int, election_type: int) -> Job[None]:
    state = node.topics.state
    topic = state.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= partition < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{partition}")
    place = Place(topic, partition)
    now, live = place.state, leadership.living(state)
    is_preferred = bool(now.replicas) and now.leader == now.replicas[0]
    if is_preferred if election_type == PREFERRED else now.leader != NO_LEADER:
        code = ErrorCode.ELECTION_NOT_NEEDED
        raise ApiError(code, error_message(code))

    def decide() -> PartitionChangeRecord | None:
        if election_type == PREFERRED:
            leader = leadership.preferred(place, live)
            return None if leader is None else leadership.change(place, leader, live)
        return leadership.settled(place, live, partition)

    if decide() is None:
        code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        if election_type == PREFERRED:
            code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        raise ApiError(code, error_message(code))
    if node.controller is not None:
        yield from node.controller.changing(decide, place)


@in_steps(forwarded=True)
def handle_alter_partition_reassignments(
    node: Node, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Job[AlterPartitionReassignmentsResponse]:
    """Give each partition the named replicas. If the leader is not one of these, the first live replica leads."""
    answer = AlterPartitionReassignmentsResponse(error_message=None)
    if not may_alter_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answer.error_code, answer.error_message = code, error_message(code)
        answer.responses = yield from _refuse_reassignments(request, code, answer.error_message)
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


def _refuse_reassignments(
    request: AlterPartitionReassignmentsRequest, code: int, message: str | None
) -> Job[list[ReassignableTopicResponse]]:
    """The answer with one error in the row of each partition (AlterPartitionReassignmentsRequest)."""
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
    request: ListPartitionReassignmentsRequest,  # noqa: ARG001  # every handler has this shape
    respond: Respond,
) -> None:
    """List no partitions: no reassignment is ever in progress."""
    error_code = 0 if may_describe_cluster(node, context) else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    respond(ListPartitionReassignmentsResponse(error_code=error_code, error_message=None))


@in_steps(forwarded=True)
def handle_unregister_broker(
    node: Node, context: RequestContext, request: UnregisterBrokerRequest
) -> Job[UnregisterBrokerResponse]:
    """Remove a broker. Other brokers lead the broker's partitions. The answer leaves when this change is durable."""
    if not may_alter_cluster(node, context):
        return UnregisterBrokerResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answer = UnregisterBrokerResponse(error_message=None)
    try:
        if node.controller is not None:
            yield from node.controller.unregistering(request.broker_id)
    except ApiError as refusal:
        answer.error_code, answer.error_message = refusal.error_code, refusal.message
        return answer
    yield from until_durable(node, [answer])
    return answer
