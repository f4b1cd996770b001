"""The fault of a leader that has moved, as brokers show it: each partition of a Fetch or Produce has the error.

The answer of `Error` also has the error as a whole, as Kafka's getErrorResponse. Brokers answer a moved leader by rows
only, and a Fetch of a session names no partitions: the rows are those of the session. Metadata shows all partitions
without a leader (LEADER_NOT_AVAILABLE).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID, Message, copied
from muster.protocol.messages.error_codes import ERRORS
from muster.protocol.messages.fetch import FetchableTopicResponse, PartitionData
from muster.protocol.messages.metadata import MetadataResponseTopic
from muster.testcontrol.faults.actions import Error, Flow, Proceed, Respond

_CODES: Final = {row[0]: code for code, row in ERRORS.items()}
NO_LEADER: Final = -1


@dataclass(frozen=True)
class LeaderError(Error):
    """See the module. The `error` is that of Fetch and Produce."""

    name: ClassVar[str] = "leader-error"

    def before(self, flow: Flow, proceed: Proceed) -> None:
        """See `Action`. An error is answered at once, also by a Fetch that would wait."""
        if flow.request.api_key == ApiKey.PRODUCE:
            super().before(flow, proceed)
            return
        if flow.request.api_key == ApiKey.FETCH:
            flow.request.message.max_wait_ms = 0
        proceed()

    def after(self, flow: Flow, response: Message | None, proceed: Respond) -> None:
        """See `Action`. The handler has kept its session up to date; its rows are replaced."""
        answer: Any = response
        if flow.request.api_key == ApiKey.FETCH and answer is not None and not answer.error_code:
            answer.responses = self._rows(flow, answer.session_id)
        elif flow.request.api_key == ApiKey.METADATA and answer is not None:
            answer = copied(answer)
            answer.topics = [_without_leaders(topic) for topic in answer.topics]
        proceed(answer)

    def _rows(self, flow: Flow, session_id: int) -> list[FetchableTopicResponse]:
        message = flow.request.message
        asked = {
            (topic.topic, topic.topic_id, row.partition): None for topic in message.topics for row in topic.partitions
        }
        session = flow.request.node.sessions.find(session_id)
        asked |= dict.fromkeys(() if session is None else session.rows)
        code = _CODES[self.error]
        return [
            FetchableTopicResponse(
                topic, topic_id or ZERO_UUID, [PartitionData(partition, code, -1, aborted_transactions=None)]
            )
            for topic, topic_id, partition in asked
        ]


def _without_leaders(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    topic = copied(topic)
    topic.partitions = [copied(row) for row in topic.partitions]
    for row in topic.partitions:
        row.error_code, row.leader_id = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    return topic
