"""The error codes of answers are compared with those that Kafka's releases gave."""

from __future__ import annotations

import struct

import pytest

from muster.conform.player import kafka_codec as codec
from muster.conform.player import spans
from muster.conform.probes import codes
from muster.conform.probes.catalogue import Probe, probes
from muster.conform.results import Severity
from tests.conform.probes.test_catalogue import KAFKA_4_4

PROBE = Probe("OffsetCommit", 9, "rich")


def answer(*errors: int) -> spans.Reading:
    rows = [{"Name": "t", "Partitions": [{"PartitionIndex": 0, "ErrorCode": error}]} for error in errors]
    frame = struct.pack(">i", 1) + b"\0" + codec.encode("OffsetCommitResponse", 9, {"Topics": rows})
    return spans.read("OffsetCommit", 9, frame)


def test_nearly_every_probe_of_kafka_4_4_has_recorded_codes() -> None:
    sent = [one.id for one in probes(KAFKA_4_4, may_alter=True) if not one.skip]
    assert set(sent) <= set(codes.RECORDED)


def test_kafkas_own_codes_are_right() -> None:
    assert codes.RECORDED[PROBE.id] == [{"Topics.Partitions.ErrorCode": [0, 3]}]
    assert codes.judged(PROBE, answer(0, 3)) is None
    assert codes.judged(PROBE, answer(3, 0)) is None


def test_another_code_is_marked_where_it_stands() -> None:
    verdict = codes.judged(PROBE, answer(0, 25))
    assert verdict is not None
    assert verdict.severity is Severity.DIFFERS
    assert verdict.text == (
        "Topics.Partitions.ErrorCode is NONE and UNKNOWN_MEMBER_ID, on Kafka NONE and UNKNOWN_TOPIC_OR_PARTITION"
    )
    assert verdict.wrong is not None
    assert verdict.wrong.field == "Topics[1].Partitions[0].ErrorCode"


def test_a_row_that_is_missing_is_said() -> None:
    verdict = codes.judged(PROBE, answer(0))
    assert verdict is not None
    assert verdict.text.startswith("Topics.Partitions.ErrorCode is NONE, on Kafka NONE and ")
    verdict = codes.judged(PROBE, answer())
    assert verdict is not None
    assert verdict.text.startswith("Topics.Partitions.ErrorCode is in no row, on Kafka ")


@pytest.mark.parametrize("error", [16, 30, 35])
def test_what_settings_or_the_place_of_a_group_decide_is_not_compared(error: int) -> None:
    assert codes.judged(PROBE, answer(0, error)) is None


def test_probes_without_a_record_are_not_compared() -> None:
    assert codes.judged(Probe("OffsetCommit", 99, "rich"), answer(25)) is None


def test_a_broker_may_have_users() -> None:
    rows = [{"User": "alice", "CredentialInfos": [{"Mechanism": 2, "Iterations": 4096}]}]
    body = codec.encode("DescribeUserScramCredentialsResponse", 0, {"Results": rows})
    reading = spans.read("DescribeUserScramCredentials", 0, struct.pack(">i", 1) + b"\0" + body)
    assert codes.judged(Probe("DescribeUserScramCredentials", 0, "nulls"), reading) is None
