"""ShareAcknowledge: acknowledgements without a fetch. The answer leaves when they are durable."""

from __future__ import annotations

from collections.abc import Iterator

from muster.coordinator.api.context import RequestContext, share_knows_renewal
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.api.share.acknowledgements import Acknowledgements, Asked
from muster.coordinator.api.share.requests import MOVED, Hint, Refused, addresses, checked, leader_of
from muster.coordinator.share.sessions import FINAL_EPOCH, Place, SessionRefused
from muster.coordinator.system.jobs import Job
from muster.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


@in_steps
def handle_share_acknowledge(
    node: Node, context: RequestContext, request: ShareAcknowledgeRequest
) -> Job[ShareAcknowledgeResponse]:
    """Answer a ShareAcknowledge. A request with the last epoch also ends the session, and releases its records."""
    try:
        shares, group_id, member_id = checked(node, context, request.group_id, request.member_id)
        shares.sessions.acknowledge(group_id, member_id, request.share_session_epoch)
    except (Refused, SessionRefused) as refused:
        return ShareAcknowledgeResponse(error_code=refused.error_code)
    may_renew = share_knows_renewal(context.api_version)
    made = Acknowledgements(group_id, member_id, may_renew=may_renew, is_renewing=request.is_renew_ack)
    yield from made.making(node, shares, context, _asked(request))
    yield from made.ended()
    if request.share_session_epoch == FINAL_EPOCH:
        yield from shares.end_session(group_id, member_id)
    topics: dict[bytes, list[PartitionData]] = {}
    hints: set[Hint] = set()
    for place, (error_code, text) in made.outcomes.items():
        row = PartitionData(place.partition, error_code, text)
        if error_code in MOVED:
            hint = leader_of(node, place)
            row.current_leader = LeaderIdAndEpoch(*hint)
            hints.add(hint)
        topics.setdefault(place.topic_id, []).append(row)
        yield None
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.config(group_id).partition.lock_ms,
        responses=[ShareAcknowledgeTopicResponse(topic_id, rows) for topic_id, rows in topics.items()],
        node_endpoints=[NodeEndpoint(*one) for one in addresses(node, context, hints)],
    )


def _asked(request: ShareAcknowledgeRequest) -> Iterator[Asked]:
    for topic in request.topics:
        for row in topic.partitions:
            yield Asked(Place(topic.topic_id, row.partition_index), row.acknowledgement_batches)
