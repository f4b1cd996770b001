"""The quorum of the metadata log: DescribeQuorum (KIP-595), AddRaftVoter and RemoveRaftVoter (KIP-853), and
UnregisterController.

The controller, which keeps the metadata log, is the quorum's leader and only voter. Other brokers are observers. Voters
cannot change: kraft.version is 0, as on a Kafka with `controller.quorum.voters`.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.cluster.describe_cluster import may_alter_cluster, may_describe_cluster
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.node import PLAIN_ROWS, Node, Respond, in_steps
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.features import METADATA, UNREGISTERED_CONTROLLERS, level_of
from muster.coordinator.topics.metadata_log import LEADER_EPOCH
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages import describe_quorum
from muster.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from muster.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from muster.protocol.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse

_QUORUM_ROW_BYTES: Final = 80
_LISTENER: Final = "CONTROLLER"
"""The listener that a new voter must have: Kafka's first of `controller.listener.names`."""
Refusal = tuple[int, str]
"""Error code and message."""


@in_steps
def handle_describe_quorum(
    node: Node, context: RequestContext, request: describe_quorum.DescribeQuorumRequest
) -> Job[describe_quorum.DescribeQuorumResponse]:
    """Describe the quorum of the one partition of the metadata log. No other partition has a quorum."""
    if not may_describe_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return describe_quorum.DescribeQuorumResponse(error_code=code, error_message=error_message(code))
    answer = describe_quorum.DescribeQuorumResponse()
    answer.topics = topics = list[describe_quorum.DescribeQuorumResponseTopicData]()
    answer_size = AnswerSize(node, context)
    present: describe_quorum.DescribeQuorumResponsePartitionData | None = None
    for topic in request.topics:
        rows: list[describe_quorum.DescribeQuorumResponsePartitionData] = []
        topics.append(describe_quorum.DescribeQuorumResponseTopicData(topic.topic_name, rows))
        for wanted in topic.partitions:
            index = wanted.partition_index
            if (topic.topic_name, index) != (METADATA_TOPIC, 0):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                rows.append(describe_quorum.DescribeQuorumResponsePartitionData(index, code, error_message(code)))
                answer_size.add(_QUORUM_ROW_BYTES)
            elif answer_size.add(_QUORUM_ROW_BYTES * (1 + len(node.cluster.brokers))):
                # a partition that is named several times has the same row each time
                present = _partition(node) if present is None else present
                rows.append(present)
            else:
                rows.append(describe_quorum.DescribeQuorumResponsePartitionData(0, TOO_LARGE, TOO_LARGE_TEXT))
            yield answer_size.pause()
        yield None
    return answer


def _partition(node: Node) -> describe_quorum.DescribeQuorumResponsePartitionData:
    log, now_ms = node.topics.metadata_log.log, node.clock.now().wall_ms
    leader = node.cluster.controller_id
    end = log.end_offset
    states = {
        broker.broker_id: describe_quorum.ReplicaState(
            broker.broker_id,
            ZERO_UUID,  # without directory id, as for statically configured voters (KIP-853)
            end,
            *((-1, -1) if broker.fenced else (now_ms, now_ms)),
        )
        for broker in node.cluster.brokers.values()
    }
    return describe_quorum.DescribeQuorumResponsePartitionData(
        0,
        0,
        "",
        leader,
        LEADER_EPOCH,
        log.durable_offset,
        [states[leader]] if leader in states else [],
        [state for broker_id, state in states.items() if broker_id != leader],
    )


def handle_add_raft_voter(node: Node, context: RequestContext, request: AddRaftVoterRequest, respond: Respond) -> None:
    """Refuse a new voter, as Kafka's AddVoterHandler does."""
    refusal = _refusal(node, context, "add", request)
    if refusal is None and all(listener.name != _LISTENER for listener in request.listeners):
        endpoints = ", ".join(
            f"ListenerName({one.name})={one.host}/<unresolved>:{one.port}" for one in request.listeners[:PLAIN_ROWS]
        )
        refusal = (
            ErrorCode.INVALID_REQUEST,
            (
                f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{endpoints}}})) "
                f"for the default listener ListenerName({_LISTENER})"
            ),
        )
    code, message = refusal or _no_change("adding")
    respond(AddRaftVoterResponse(error_code=code, error_message=message))


def handle_remove_raft_voter(
    node: Node, context: RequestContext, request: RemoveRaftVoterRequest, respond: Respond
) -> None:
    """Refuse to remove a voter, as Kafka's RemoveVoterHandler does."""
    code, message = _refusal(node, context, "remove", request) or _no_change("removing")
    respond(RemoveRaftVoterResponse(error_code=code, error_message=message))


def handle_unregister_controller(
    node: Node, context: RequestContext, request: UnregisterControllerRequest, respond: Respond
) -> None:
    """Refuse to remove a controller, as Kafka's ClusterControlManager does: no other controller is registered."""
    controller_id = request.controller_id
    if not may_alter_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        message = error_message(code)
    elif controller_id == node.cluster.controller_id:
        code = ErrorCode.INVALID_REQUEST
        message = "Controller cannot unregister itself while it is active."
    elif level_of(node.topics.state.features, METADATA) < UNREGISTERED_CONTROLLERS:
        code = ErrorCode.UNSUPPORTED_VERSION
        message = "The current MetadataVersion is too old to support controller unregistration."
    else:
        code = ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        message = f"Controller ID {controller_id} is not currently registered."
    respond(UnregisterControllerResponse(error_code=code, error_message=message))


def _refusal(
    node: Node, context: RequestContext, verb: str, request: AddRaftVoterRequest | RemoveRaftVoterRequest
) -> Refusal | None:
    """Why the request is not valid, or None."""
    if not may_alter_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return code, error_message(code)
    named, cluster_id = request.cluster_id, node.cluster.cluster_id
    if named is not None and named != cluster_id:
        what = f'The given id "{named}" doesn\'t match the cluster id "{cluster_id}"'
        return ErrorCode.INCONSISTENT_CLUSTER_ID, what
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, f"{verb.capitalize()} voter request didn't include a valid voter"
    return None


def _no_change(verb: str) -> Refusal:
    what = f"Cluster doesn't support {verb} voter because the kraft.version feature is 0"
    return ErrorCode.UNSUPPORTED_VERSION, what
