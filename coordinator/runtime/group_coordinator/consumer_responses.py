"""The answers to requests of consumer groups (KIP-848) without asking the groups: see `error_responses`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.coordinator.groups.consumer.commands import (
    AnswersDue,
    AssignmentWanted,
    TopicsWanted,
    UpgradeWanted,
)
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def _heartbeat(_: Message, code: int) -> Message:
    return ConsumerGroupHeartbeatResponse(error_code=code)


MAKERS: Final[Mapping[type, Callable[[Any, int], Message]]] = {
    ConsumerGroupHeartbeatRequest: _heartbeat,
    ConsumerGroupDescribeRequest: lambda r, code: ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(code, None, group_id) for group_id in r.group_ids]
    ),
    ConsumerGroupHeartbeatResponse: _heartbeat,
    ConsumerGroupDescribeResponse: lambda r, code: ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(code, None, group.group_id) for group in r.groups]
    ),
    # These are not answers but work for helpers. A core that did not ask for the work has no use for its result.
    AssignmentWanted: lambda wanted, _: wanted,
    TopicsWanted: lambda wanted, _: wanted,
    AnswersDue: lambda due, _: due,
    UpgradeWanted: lambda wanted, _: wanted,
}
"""The makers by the type of the request, or of the answer that may not be sent."""
