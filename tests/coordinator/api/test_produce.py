from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import Node
from muster.coordinator.log import batches
from muster.coordinator.log.records import compression
from muster.coordinator.log.records.building import assemble
from muster.coordinator.log.records.headers import read_header
from muster.coordinator.system.jobs import AtOnce, at_once
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.coordinator.api.data_plane import ask_one, data_node, send, topic_id
from tests.coordinator.api.harness import make_context
from tests.coordinator.log.support import PendingResult
from tests.coordinator.topics.support import add_topic, batch


@pytest.fixture
def node() -> Node:
    node = data_node()
    add_topic(node.topics, "t", 2)
    return node


def request(node: Node, *rows: tuple[int, bytes | None], acks: int = -1, **more: Any) -> ProduceRequest:
    data = [PartitionProduceData(index, records) for index, records in rows]
    return ProduceRequest(
        acks=acks, topic_data=[TopicProduceData(topic_id=topic_id(node, "t"), partition_data=data)], **more
    )


def rows(response: Any) -> list[tuple[int, int, int]]:
    """(partition, error, base offset)."""
    return [
        (row.index, row.error_code, row.base_offset)
        for topic in response.responses
        for row in topic.partition_responses
    ]


@pytest.mark.parametrize("acks", [1, -1])
def test_each_produced_partition_gets_its_offset_or_its_error(node: Node, acks: int) -> None:
    assert rows(ask_one(node, request(node, (0, batch(b"a", b"b")), (1, batch()), acks=acks))) == [(0, 0, 0), (1, 0, 0)]
    answer = ask_one(node, request(node, (0, batch()), (1, batch() + b"rubbish" * 10), (7, batch()), acks=acks))
    assert rows(answer) == [
        (0, 0, 2),
        (1, ErrorCode.CORRUPT_MESSAGE, -1),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


def test_bytes_that_are_no_batch_refuse_the_whole_produce(node: Node) -> None:
    answer = ask_one(node, request(node, (0, batch()), (1, b"rubbish" * 10), (7, batch())))
    assert rows(answer) == [(index, ErrorCode.CORRUPT_MESSAGE, -1) for index in (0, 1, 7)]
    row = answer.responses[0].partition_responses[0]
    assert (row.error_message, row.log_start_offset) == ("Invalid magic found in record: 98", -1)
    assert rows(ask_one(node, request(node, (0, batch()))))[0] == (0, 0, 0)


def test_records_of_a_transaction_without_its_id_refuse_the_whole_request(node: Node) -> None:
    in_transaction = batch(transactional=True)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    answer = ask_one(node, request(node, (0, batch()), (1, in_transaction), (9, batch())))
    assert rows(answer) == [(0, refused, -1), (1, refused, -1), (9, refused, -1)]
    named = request(node, (0, batch()), (1, in_transaction), transactional_id="tx")
    assert rows(ask_one(node, named)) == [(0, 0, 0), (1, 0, 0)]
    numbered = batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    named = request(node, (0, batch()), (1, numbered), transactional_id="tx")
    answer = ask_one(node, named)
    # no transaction coordinator exists that could be asked
    assert rows(answer) == [(0, 0, 1), (1, ErrorCode.NOT_ENOUGH_REPLICAS, -1)]
    assert answer.responses[0].partition_responses[1].log_start_offset == -1


def test_a_partition_that_is_named_twice_takes_the_last_batch(node: Node) -> None:
    assert rows(ask_one(node, request(node, (0, batch(b"a")), (0, batch(b"b", b"c")), (1, batch())))) == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    twice = request(node, (0, batch(b"d")), (1, batch()))
    twice.topic_data.append(TopicProduceData(topic_id=topic_id(node, "t"), partition_data=[]))
    twice.topic_data.append(
        TopicProduceData(topic_id=topic_id(node, "t"), partition_data=[PartitionProduceData(0, batch(b"e"))])
    )
    answer = ask_one(node, twice)
    assert (len(answer.responses), rows(answer)) == (1, [(0, 0, 2), (1, 0, 1)])
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    data = partition.read(0, 1 << 20, True, partition.log.durable_offset)
    assert [record.value for _, records in batches.read(data) for record in records] == [b"b", b"c", b"e"]


@pytest.mark.parametrize("first", [True, False])
def test_a_refused_row_wins_over_an_accepted_row_of_the_same_partition(node: Node, first: bool) -> None:
    two = [(0, batch() + batch()), (0, batch())]
    answer = ask_one(node, request(node, *(two if first else two[::-1])))
    assert rows(answer) == [(0, ErrorCode.INVALID_RECORD, -1)]
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    assert partition.log.end_offset == 1  # as on Kafka, the good batch is stored all the same


def test_a_topic_without_rows_is_not_in_the_answer(node: Node) -> None:
    assert ask_one(node, request(node)).responses == []


def test_a_refused_append_has_the_log_start_offset(node: Node) -> None:
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    assert rows(ask_one(node, request(node, (0, batch(b"a", b"b"))))) == [(0, 0, 0)]
    partition.delete_records(1)
    junk = assemble(read_header(batch()), b"junk", 1)
    ahead = (
        batch(producer_id=3, producer_epoch=0, base_sequence=0),
        batch(producer_id=3, producer_epoch=0, base_sequence=9),
    )
    ask_one(node, request(node, (0, ahead[0])))
    wrong_crc = bytearray(batch())
    wrong_crc[-1] ^= 1
    for data, code, start in (
        (junk, ErrorCode.INVALID_RECORD, 1),
        (ahead[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1),
        (batch(at_ms=1 << 60), ErrorCode.INVALID_TIMESTAMP, 1),
        (batch() + batch(), ErrorCode.INVALID_RECORD, -1),
        (bytes(wrong_crc), ErrorCode.CORRUPT_MESSAGE, -1),
        (batch(b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE, -1),
    ):
        (row,) = ask_one(node, request(node, (0, data))).responses[0].partition_responses
        assert (row.error_code, row.log_start_offset) == (code, start)


@pytest.mark.parametrize("acks", [1, -1])
def test_with_flush_messages_the_answer_waits_for_the_sync(acks: int) -> None:
    later = PendingResult()
    node = data_node(sync=later.sync)
    partition = add_topic(node.topics, "t", flush_messages="1")
    later.settle()
    answers = send(node, request(node, (0, batch()), acks=acks))
    assert answers.all == []
    later.settle()
    assert rows(answers.one()) == [(0, 0, 0)]
    refused = send(node, request(node, (0, batch()), acks=acks))
    partition.log.go_offline("x", OSError(5, "Input/output error"))
    assert rows(refused.one()) == [(0, ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert not node.topics.by_name["t"].is_online(0)


def test_a_produce_without_acks_has_no_answer(node: Node) -> None:
    assert send(node, request(node, (0, batch()), acks=0)).all == [None]
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    assert partition.log.end_offset == 1


@pytest.mark.parametrize("acks", [0, 1])
def test_a_refused_produce_without_acks_closes_the_connection(node: Node, acks: int) -> None:
    context = make_context(0, 13)
    ended: list[CloseConnection] = []
    context.channel.ended_by(ended.append)
    wanted = request(node, (0, batch()), (7, batch()), (1, b""), acks=acks)
    answer = send(node, wanted, context=context).one()
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    assert partition.log.end_offset == 1
    if acks:
        assert answer is not None
        assert ended == []
    else:
        assert answer is None
        facts = {"topic": "t", "partition": 7, "error": "UNKNOWN_TOPIC_OR_PARTITION", "refused_partitions": 2}
        assert [refused.facts for refused in ended] == [{**facts, "client_id": "test"}]


def test_the_log_line_of_an_unknown_topic_id_has_the_id(node: Node) -> None:
    context = make_context(0, 13)
    ended: list[CloseConnection] = []
    context.channel.ended_by(ended.append)
    wanted = request(node, (0, batch()), acks=0)
    wanted.topic_data[0].topic_id = b"?" * 16
    send(node, wanted, context=context)
    assert [refused.facts["topic"] for refused in ended] == [(b"?" * 16).hex()]


def test_acks_other_than_0_1_and_all_are_refused(node: Node) -> None:
    answer = ask_one(node, request(node, (0, batch()), (1, b""), (7, batch()), acks=2))
    assert rows(answer) == [
        (0, ErrorCode.INVALID_REQUIRED_ACKS, -1),
        (1, ErrorCode.INVALID_RECORD, -1),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


def test_a_produce_before_version_13_names_topics(node: Node) -> None:
    wanted = request(node, (0, batch()))
    wanted.topic_data[0].name, wanted.topic_data[0].topic_id = "t", bytes(16)
    answer = ask_one(node, wanted, version=12)
    assert (answer.responses[0].name, rows(answer)) == ("t", [(0, 0, 0)])
    wanted.topic_data[0].name = "no"
    assert rows(ask_one(node, wanted, version=12)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert rows(ask_one(node, wanted)) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1)]


def test_zstd_is_refused_before_version_7(node: Node) -> None:
    wanted = request(node, (0, batch(compression=4)))
    wanted.topic_data[0].name = "t"
    assert rows(ask_one(node, wanted, version=6)) == [(0, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)]
    assert rows(ask_one(node, wanted, version=7)) == [(0, 0, 0)]


def test_a_produce_to_an_internal_topic_is_refused(node: Node) -> None:
    at_once(node.topics.ensuring("__consumer_offsets", 1))
    wanted = request(node, (0, batch()))
    wanted.topic_data[0].topic_id = topic_id(node, "__consumer_offsets")
    assert rows(ask_one(node, wanted)) == [(0, ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]


def test_the_refusal_of_faulty_records_names_each_record(node: Node) -> None:
    add_topic(node.topics, "compacted", cleanup_policy="compact")
    wanted = request(node, (0, batch(b"a", b"b", key=None)))
    wanted.topic_data[0].topic_id = topic_id(node, "compacted")
    row = ask_one(node, wanted).responses[0].partition_responses[0]
    assert (row.error_code, [error.batch_index for error in row.record_errors]) == (ErrorCode.INVALID_RECORD, [0, 1])


def test_producer_ids_are_unique_and_duplicates_are_found(node: Node) -> None:
    first, second = (ask_one(node, InitProducerIdRequest(transactional_id=None)) for _ in range(2))
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert first.producer_id != second.producer_id
    data = batch(producer_id=first.producer_id, producer_epoch=0, base_sequence=0)
    assert rows(ask_one(node, request(node, (0, data)))) == [(0, 0, 0)]
    assert rows(ask_one(node, request(node, (0, data)))) == [(0, 0, 0)]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (InitProducerIdRequest(transactional_id=""), ErrorCode.INVALID_REQUEST),
        # its coordinator is not needed before FindCoordinator
        (InitProducerIdRequest("tx", 1_000), ErrorCode.NOT_COORDINATOR),
        (InitProducerIdRequest("tx", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("tx", 900_001), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=-1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_init_producer_id_refuses_bad_requests(node: Node, wanted: InitProducerIdRequest, code: int) -> None:
    answer = ask_one(node, wanted)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


# ---- large batches, and many


class Elsewhere(AtOnce):
    """A thread that counts its jobs."""

    def __init__(self) -> None:
        self.count = 0
        self.before: list[Callable[[], object]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        self.count += 1
        for callback in self.before:
            callback()
        super().run(work, done)


@pytest.fixture
def elsewhere(node: Node) -> Elsewhere:
    node.job_queue.worker = found = Elsewhere()
    return found


def zeros(megabytes: int) -> bytes:
    return bytes(batches.build([(b"k", bytes(megabytes << 20))], timestamp_ms=1, compression=compression.ZSTD))


def test_small_batches_are_checked_at_once_and_large_ones_in_the_thread(node: Node, elsewhere: Elsewhere) -> None:
    small = [batch(b"a"), bytes(batches.build([(b"k", bytes(500_000))], timestamp_ms=1, compression=compression.LZ4))]
    for one in small:
        assert rows(ask_one(node, request(node, (0, one))))[0][1] == 0
    assert elsewhere.count == 0
    headers: list[tuple[str, bytes | None]] = [("", None)] * 100_000
    large = [
        bytes(batches.build([(b"k", b"v")] * 3_000, timestamp_ms=1)),
        bytes(batches.build([(b"k", b"v", headers)], timestamp_ms=1)),
        zeros(2),
    ]
    for count, one in enumerate(large, 1):
        assert rows(ask_one(node, request(node, (0, one))))[0][1] == 0
        assert elsewhere.count == count


def test_the_unpacked_size_of_all_batches_of_a_produce_is_bounded(
    node: Node, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "REQUEST_UNPACKED_BYTES", 8 << 20)
    add_topic(node.topics, "wide", 6)
    data = [PartitionProduceData(index, zeros(3)) for index in range(6)]
    wanted = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(topic_id=topic_id(node, "wide"), partition_data=data)]
    )
    codes = [code for _, code, _ in rows(ask_one(node, wanted))]
    assert codes == [0, 0] + [ErrorCode.MESSAGE_TOO_LARGE] * 4
    # the first batch may have any size, and uncompressed batches are not counted
    plain = bytes(batches.build([(b"k", bytes(900_000))], timestamp_ms=1))
    data = [PartitionProduceData(index, one) for index, one in enumerate([zeros(20), plain, zeros(1)])]
    wanted.topic_data = [TopicProduceData(topic_id=topic_id(node, "wide"), partition_data=data)]
    codes = [code for _, code, _ in rows(ask_one(node, wanted))]
    assert codes == [0, 0, ErrorCode.MESSAGE_TOO_LARGE]


def test_a_record_of_millions_of_headers_is_too_large(node: Node, elsewhere: Elsewhere) -> None:
    count = 2_000_000
    head = b"\0\0\0\x01\0" + varint(count)
    body = varint(len(head) + 2 * count) + head + bytes(2 * count)
    plain = batches.build([(None, b"")], timestamp_ms=1)
    header = read_header(plain)
    packed = compression.compress(body, compression.ZSTD)
    data = assemble(header._replace(attributes=compression.ZSTD), packed, 1)
    ((_, code, _),) = rows(ask_one(node, request(node, (0, data))))
    assert (code, elsewhere.count) == (ErrorCode.MESSAGE_TOO_LARGE, 1)


def varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def test_a_produce_to_a_topic_deleted_during_the_check_is_refused(node: Node, elsewhere: Elsewhere) -> None:
    elsewhere.before.append(lambda: at_once(node.topics.deleting(node.topics.by_name["t"])))
    ((_, code, _),) = rows(ask_one(node, request(node, (0, zeros(2)))))
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
