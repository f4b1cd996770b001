"""An error replaces any answer: in every version of every API that is served."""

from __future__ import annotations

import pytest

from muster.coordinator.api.observer import error_counts
from muster.coordinator.api.registry import SERVED, Route
from muster.protocol.api import api
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.testcontrol.faults.error_answers import error_answer
from tests.testcontrol.faults.samples import request_of

CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("key", SERVED)
def test_each_version_can_be_answered_with_an_error(key: int) -> None:
    served = SERVED[key]
    for version in range(served.served_from, served.max_version + 1):
        route = Route(key, version, b"", b"", "")
        answer = route.lower(error_answer(key, version, request_of(key), CODE, "because"))
        frame = route.frame(answer, bytes(4))
        assert frame
        codes = error_counts(key, answer)
        partitions = [name for name in str(answer).split("(") if "partition_error_code=15" in name]
        assert CODE in codes or partitions, (api(key).name, version, answer)


def test_rows_of_an_error_answer_name_the_requested_partitions() -> None:
    produced = ProduceRequest(
        topic_data=[TopicProduceData("orders", bytes(16), [PartitionProduceData(i) for i in (3, 5)])]
    )
    answer = error_answer(0, 13, produced, CODE)
    row = answer.responses[0]
    assert (row.name, [(one.index, one.error_code, one.base_offset) for one in row.partition_responses]) == (
        "orders",
        [(3, CODE, -1), (5, CODE, -1)],
    )
    fetched = FetchRequest(topics=[FetchTopic("", b"i" * 16, [FetchPartition(7)])])
    reported = error_answer(1, 18, fetched, CODE)
    (topic,) = reported.responses
    assert (reported.error_code, topic.topic_id) == (CODE, b"i" * 16)
    assert (topic.partitions[0].partition_index, topic.partitions[0].error_code) == (7, CODE)


def test_an_error_answer_has_the_member_id_of_the_request() -> None:
    answer = error_answer(11, 9, JoinGroupRequest("g", member_id="m"), ErrorCode.UNKNOWN_MEMBER_ID)
    assert (answer.member_id, answer.generation_id, answer.protocol_name) == ("m", -1, None)
