"""ElectLeaders (key 43): move leadership back to the preferred replica, or to any replica where no leader exists
(KIP-183, KIP-460).
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.cluster.refusals import may_alter_cluster
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.durable import until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.api.version_rules import elections_tell_one_error
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics import leadership
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.metadata_state import NO_LEADER
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""ElectionType. An unclean election loses no records here, because every replica has the whole log."""


@in_steps(forwarded=True)
def handle_elect_leaders(
    node: Node, context: RequestContext, request: ElectLeadersRequest
) -> Job[ElectLeadersResponse]:
    """Each partition has its own result. When the request names no partition, all partitions are meant. Then the answer
    has those whose leader has changed and those whose election failed.
    """
    if not may_alter_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return (yield from _refuse(context, request, code, error_message(code)))
    if request.election_type not in (PREFERRED, UNCLEAN):
        what = f"Unknown election type {request.election_type}"
        return (yield from _refuse(context, request, ErrorCode.INVALID_REQUEST, what))
    state = node.topics.state
    asked = request.topic_partitions
    wanted = (
        [(name, [*range(len(topic.partitions))]) for name, topic in state.topics.items()]
        if asked is None
        else [(topic.topic, topic.partitions) for topic in asked]
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


def _refuse(
    context: RequestContext, request: ElectLeadersRequest, code: int, message: str
) -> Job[ElectLeadersResponse]:
    """Refuse the whole request, and each partition that it names."""
    answer = ElectLeadersResponse(error_code=code if elections_tell_one_error(context.api_version) else 0)
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
    """Elect the leader of one partition. Raises `ApiError`."""
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
