"""Fetch has the replica id in `replica_state` since version 15. Older answers have no endpoints of leaders."""

from __future__ import annotations

from muster.protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState

FIRST_WITH_LEADERS = 12
FIRST_WITH_PREFERRED_REPLICA = 11


def raise_request(_version: int, request: FetchRequest) -> FetchRequest:
    """Move the replica id (consumers send -1) into `replica_state`."""
    if request.replica_id != -1:
        request.replica_state = ReplicaState(replica_id=request.replica_id)
        request.replica_id = -1
    return request


def lower_response(version: int, response: FetchResponse) -> FetchResponse:
    """Remove endpoints (below 16), leader, diverging epoch, snapshot (below 12), preferred replica (below 11)."""
    response.node_endpoints = ()
    if version >= FIRST_WITH_LEADERS:
        return response
    for topic in response.responses:
        for partition in topic.partitions:
            partition.current_leader = partition.diverging_epoch = partition.snapshot_id = None
            if version < FIRST_WITH_PREFERRED_REPLICA:
                partition.preferred_read_replica = -1
    return response
