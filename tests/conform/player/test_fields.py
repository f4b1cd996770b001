"""Tests of messages as text: a story asks any API, and sees the fields that are not as usual."""

from __future__ import annotations

import uuid

import pytest

from muster.conform.player import fields
from muster.conform.player import kafka_codec as codec
from muster.conform.player.stage import Stage
from muster.conform.player.story import Story

TOPIC = uuid.UUID(int=7)


def stage() -> Stage:
    made = Stage(Story("x.txt", "own-topics o=1\n"), "~ab", {"o": TOPIC})
    made.node = 1
    return made


def test_text_becomes_a_request() -> None:
    text = 'Topics=[{Name=o NumPartitions=2 Configs=[{Name=a Value="b c"}]} {Name=g~}] validateOnly=true'
    assert fields.message_of(stage(), "CreateTopics", text) == {
        "Topics": [
            {"Name": "o-ab", "NumPartitions": 2, "Configs": [{"Name": "a", "Value": "b c"}]},
            {"Name": "g~ab"},
        ],
        "validateOnly": True,
    }


def test_topics_by_id_and_null() -> None:
    body = fields.message_of(stage(), "Metadata", "Topics=[{TopicId=o Name=null} {TopicId=none Name=null}]")
    assert body == {"Topics": [{"TopicId": TOPIC, "Name": None}, {"TopicId": uuid.UUID(int=0), "Name": None}]}


@pytest.mark.parametrize("text", ["Nothing=1", "Topics=[{Nothing=1}]", "Topics"])
def test_what_is_no_field_is_refused(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        fields.message_of(stage(), "Metadata", text)


def test_an_answer_shows_what_is_not_usual() -> None:
    partition = {"PartitionIndex": 2, "LeaderId": 5, "LeaderEpoch": 0, "ReplicaNodes": [5], "IsrNodes": []}
    body = decoded(
        "Metadata",
        12,
        Brokers=[{"NodeId": 5, "Host": "h", "Port": 9}],
        ClusterId="c",
        Topics=[{"Name": "o-ab", "TopicId": TOPIC, "Partitions": [partition]}, {"ErrorCode": 3, "Name": "nope"}],
    )
    assert fields.text_of_answer(stage(), "Metadata", 12, body) == (
        "Brokers=[{NodeId=node}] Topics=[{ErrorCode=UNKNOWN_TOPIC_OR_PARTITION Name=nope} {Name=o TopicId=o "
        "Partitions=[{PartitionIndex=2 LeaderId=node LeaderEpoch=0 ReplicaNodes=[node]}]}]"
    )


def test_an_answer_without_anything_is_ok() -> None:
    assert fields.text_of_answer(stage(), "Metadata", 12, decoded("Metadata", 12, Brokers=[], Topics=[])) == "ok"


def test_a_fetch_session_has_a_name() -> None:
    here, body = stage(), decoded("Fetch", 12, SessionId=77, Responses=[])
    fields.learn(here, body)
    assert fields.text_of_answer(here, "Fetch", 12, body) == "SessionId=session"
    assert fields.message_of(here, "Fetch", "SessionId=session") == {"SessionId": 77}


def decoded(api: str, version: int, **body: object) -> dict[str, object]:
    """An answer as it comes from a server."""
    return codec.decode(api + "Response", version, codec.encode(api + "Response", version, body))
