from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.cluster.api_versions import handle_api_versions
from muster.coordinator.api.registry import SERVED
from muster.coordinator.telemetry.reports import ClientReports
from muster.protocol.api import api
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.api_versions import ApiVersionsRequest
from tests.coordinator.api.harness import Answers, FakeTopics, make_context, make_node

HERE = "test-cluster-id-000000"


def answer(version: int, name: str = "librdkafka", software: str = "2.1") -> Any:
    answers = Answers()
    context = make_context(18, version)
    handle_api_versions(
        make_node(topics=FakeTopics(), client_reports=ClientReports()),
        context,
        ApiVersionsRequest(name, software),
        answers,
    )
    response = answers.one()
    if version >= 3 and response.error_code == 0:
        assert (context.channel.software_name, context.channel.software_version) == (name, software)
    # each version can encode the answer
    api(18).encode_response(version, response)
    return response


def test_api_versions_lists_exactly_the_served_apis() -> None:
    rows = {row.api_key: (row.min_version, row.max_version) for row in answer(4).api_keys}
    assert rows == {key: (served.min_version, served.max_version) for key, served in SERVED.items()}


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("name", "software"), [("", "1"), ("a", ""), ("-a", "1"), ("a", "1-"), ("a b", "1"), ("ä", "1"), ("a", "1\n")]
)
def test_a_malformed_client_software_name_or_version_is_refused(version: int, name: str, software: str) -> None:
    response = answer(version, name, software)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.api_keys == ()


@pytest.mark.parametrize(("name", "software"), [("a", "1"), ("apache-kafka-java", "4.3.0"), ("A.b-C", "0.1.2-rc.3")])
def test_a_valid_client_software_name_is_accepted(name: str, software: str) -> None:
    assert answer(4, name, software).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_api_versions_before_version_3_needs_no_client_software_name(version: int) -> None:
    assert answer(version, "", "").error_code == 0


def test_features_that_are_not_served_have_level_0() -> None:
    response = answer(4)
    supported = {row.name: (row.min_version, row.max_version) for row in response.supported_features}
    assert supported["streams.version"] == (0, 1)
    assert supported["eligible.leader.replicas.version"] == (0, 0)
    assert supported["share.version"] == (0, 2)
    assert supported["group.version"] == (0, 1)
    assert supported["transaction.version"] == (0, 2)
    assert supported["metadata.version"] == (7, 33)
    finalized = {row.name: row.max_version_level for row in response.finalized_features}
    assert finalized == {"group.version": 1, "metadata.version": 33, "share.version": 2, "streams.version": 1,
                         "transaction.version": 2}  # fmt: skip
    assert response.finalized_features_epoch == 7


def test_features_that_start_at_level_0_are_hidden_from_older_clients() -> None:
    assert [row.name for row in answer(3).supported_features] == ["metadata.version"]


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, 0),
        (HERE, 1, 0),
        (HERE, -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
        ("another", -1, ErrorCode.INVALID_REQUEST),
        ("", -1, ErrorCode.INVALID_REQUEST),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (HERE, 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (HERE, -2, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_a_client_that_expects_another_cluster_or_node_has_to_bootstrap_again(
    cluster_id: str | None, node_id: int, error: int
) -> None:
    """The errors are those of Kafka 4.4, asked the same (KIP-1242)."""
    answers = Answers()
    request = ApiVersionsRequest("a", "1", cluster_id, node_id)
    handle_api_versions(make_node(topics=FakeTopics()), make_context(18, 5), request, answers)
    response = answers.one()
    assert (response.error_code, bool(response.api_keys)) == (error, not error)
