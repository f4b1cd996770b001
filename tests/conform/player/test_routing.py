"""Which broker of several a request is for, and one answer of several."""

from __future__ import annotations

import uuid

from muster.conform.player import routing

NAMES = {uuid.UUID(int=7): "o"}


def test_each_request_is_routed_to_its_coordinator() -> None:
    assert routing.coordinated("Heartbeat", {"GroupId": "g"}) == [(routing.GROUP, "g")]
    assert routing.coordinated("DescribeGroups", {"Groups": ["g", "h"]}) == [(routing.GROUP, "g"), (routing.GROUP, "h")]
    assert routing.coordinated("OffsetFetch", {"GroupId": "g", "Topics": None}) == [(routing.GROUP, "g")]
    assert routing.coordinated("EndTxn", {"TransactionalId": "t"}) == [(routing.TRANSACTION, "t")]
    assert routing.coordinated("InitProducerId", {"TransactionalId": None}) is None
    assert routing.coordinated("FindCoordinator", {"Key": "g"}) is None


def test_answers_of_several_brokers_about_groups_keep_the_requested_order() -> None:
    body = {"Groups": ["a", "b", "c"]}
    assert routing.only_names("DescribeGroups", body, lambda name: name != "b") == {"Groups": ["a", "c"]}
    answers = [{"Groups": [{"GroupId": "a"}, {"GroupId": "c"}]}, {"Groups": [{"GroupId": "b"}]}]
    reported = routing.joined("DescribeGroups", body, answers, NAMES)
    assert [row["GroupId"] for row in reported["Groups"]] == ["a", "b", "c"]


def test_a_request_about_partitions_is_divided_by_leader() -> None:
    rows = [{"Index": 0}, {"Index": 1}]
    body = {"Acks": -1, "TopicData": [{"TopicId": uuid.UUID(int=7), "PartitionData": rows}]}
    assert routing.places("Produce", body, NAMES) == [("o", 0), ("o", 1)]
    part = routing.only_places("Produce", body, NAMES, lambda place: place == ("o", 1))
    assert part["Acks"] == -1
    assert part["TopicData"][0]["PartitionData"] == [{"Index": 1}]
    answers = [
        {"Responses": [{"Name": "o", "PartitionResponses": [{"Index": 1, "BaseOffset": 5}]}]},
        {"Responses": [{"Name": "o", "PartitionResponses": [{"Index": 0, "BaseOffset": 9}]}]},
    ]
    (topic,) = routing.joined("Produce", body, answers, NAMES)["Responses"]
    assert [row["BaseOffset"] for row in topic["PartitionResponses"]] == [9, 5]


def test_transaction_markers_are_routed_to_the_leaders() -> None:
    topics = [{"Name": "o", "PartitionIndexes": [0]}, {"Name": "p", "PartitionIndexes": [3]}]
    body = {"Markers": [{"ProducerId": 1, "Topics": topics}]}
    part = routing.only_places("WriteTxnMarkers", body, NAMES, lambda place: place == ("p", 3))
    assert part == {"Markers": [{"ProducerId": 1, "Topics": topics[1:]}]}
    answers = [
        {"Markers": [{"ProducerId": 1, "Topics": [{"Name": name, "Partitions": [{"PartitionIndex": index}]}]}]}
        for name, index in (("o", 0), ("p", 3))
    ]
    (marker,) = routing.joined("WriteTxnMarkers", body, answers, NAMES)["Markers"]
    assert [topic["Name"] for topic in marker["Topics"]] == ["o", "p"]


def test_deletions_of_records_and_epochs_are_for_the_leaders() -> None:
    deletion = {"Topics": [{"Name": "o", "Partitions": [{"PartitionIndex": 2, "Offset": 3}]}], "TimeoutMs": 1}
    assert routing.places("DeleteRecords", deletion, NAMES) == [("o", 2)]
    epochs = {"ReplicaId": -1, "Topics": [{"Topic": "o", "Partitions": [{"Partition": 1, "LeaderEpoch": 0}]}]}
    assert routing.places("OffsetForLeaderEpoch", epochs, NAMES) == [("o", 1)]


def test_an_error_of_one_broker_is_the_error_of_the_joined_answer() -> None:
    answers = [{"ErrorCode": 0, "Groups": [{"GroupId": "a"}]}, {"ErrorCode": 14, "Groups": []}]
    assert routing.joined("ListGroups", {}, answers, NAMES)["ErrorCode"] == 14


def test_topics_that_are_named_by_id_are_found_in_a_request() -> None:
    ids = [uuid.UUID(int=7), uuid.UUID(int=8)]
    topics = [{"TopicId": one, "Partitions": []} for one in (*ids, ids[0], uuid.UUID(int=0))]
    assert routing.topic_ids("Fetch", {"Topics": topics}) == ids
    assert routing.topic_ids("Fetch", {"Topics": [{"Topic": "o", "Partitions": []}]}) == []
    assert routing.topic_ids("Heartbeat", {"GroupId": "g"}) == []
