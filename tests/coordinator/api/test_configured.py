"""Configs of brokers, groups, client metrics and loggers. Every answer is that of a real Kafka 4.4 to the same requests
in the same order (`kafka_configured.json.gz`).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.api import many_rows
from muster.coordinator.api.configs import alter_configs
from muster.coordinator.api.configs.alter_configs import MAX_BROKER_PROPERTIES, MAX_CHANGES
from muster.coordinator.api.node import Node
from muster.coordinator.system.logging.output import LEVELS, ROOT
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import alter_configs as full
from muster.protocol.messages import incremental_alter_configs as incremental
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from muster.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.coordinator.api.data_plane import ask_one, data_node
from tests.coordinator.topics.support import add_topic

FOUND: dict[str, list[Any]] = json.loads(
    gzip.decompress((Path(__file__).parent / "kafka_configured.json.gz").read_bytes())
)
BROKER, LOGGER = 4, 8
UNKNOWN_SERVER_ERROR = -1


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with the same settings as that Kafka."""
    before = LEVELS.name(ROOT)
    node = data_node({"message.max.bytes": "100000", "group.min.session.timeout.ms": "100"})
    add_topic(node.topics, "p_t0", 1, retention_bytes="77")
    yield node
    LEVELS.set(ROOT, before)


def ask(node: Node, row: list[Any]) -> Any:
    """The answer to a row of the data, in its form."""
    api, kind, name, configs, validate_only, _ = row
    if api == "IncrementalAlterConfigs":
        changes = [incremental.AlterableConfig(key, operation, value) for key, operation, value in configs]
        resource = incremental.AlterConfigsResource(kind, name, changes)
        request: Any = incremental.IncrementalAlterConfigsRequest([resource], validate_only)
        answer = ask_one(node, request).responses[0]
        return [answer.error_code, answer.error_message]
    if api == "AlterConfigs":
        given = [full.AlterableConfig(key, value) for key, _, value in configs]
        request = full.AlterConfigsRequest([full.AlterConfigsResource(kind, name, given)], validate_only)
        answer = ask_one(node, request).responses[0]
        return [answer.error_code, answer.error_message]
    if api == "DescribeConfigs":
        wanted = DescribeConfigsResource(kind, name, configs)
        row = ask_one(node, DescribeConfigsRequest([wanted], include_synonyms=True)).results[0]
        entries = {
            c.name: [
                c.value,
                c.read_only,
                c.config_source,
                c.is_sensitive,
                c.config_type,
                [[s.name, s.value, s.source] for s in c.synonyms],
            ]
            for c in row.configs
        }
        return [row.error_code, row.error_message, entries]
    if api == "ListConfigResources":
        resources = ask_one(node, ListConfigResourcesRequest([kind])).config_resources
        return sorted(resource.resource_name for resource in resources)
    answer = ask_one(node, CreateTopicsRequest([CreatableTopic(name, 1, 1)], 1_000, validate_only)).topics[0]
    return {config.name: [config.value, config.config_source] for config in answer.configs}


def is_known(row: list[Any], answer: Any) -> bool:
    """Whether docs/conformance.md names the difference of this answer."""
    api, kind, _, configs, _, kafkas = row
    if kafkas[0] == UNKNOWN_SERVER_ERROR:  # an unknown operation
        return bool(answer[0] == 42)
    names = [config[0] for config in configs]
    if kind == BROKER and names and names[-1] in ("listeners", "listener.security.protocol.map"):
        return answer == [42, f"Cannot update these configs dynamically: [{names[-1]}]"] or answer == [0, None]
    if kind == BROKER and names and names[-1].startswith("muster."):
        return answer == [42, f"Cannot update these configs dynamically: [{names[-1]}]"]
    return kind == LOGGER and "kafka.server.KafkaApis" in names and api != "DescribeConfigs"


@pytest.mark.parametrize("story", sorted(FOUND))
def test_every_answer_about_configs_equals_kafkas(node: Node, story: str) -> None:
    different = []
    for number, row in enumerate(FOUND[story]):
        answer = ask(node, row)
        if answer != row[5] and not is_known(row, answer):
            different.append((number, row[:5], row[5], answer))
    assert different == []


def alter(node: Node, *resources: incremental.AlterConfigsResource) -> set[tuple[int, str | None]]:
    answer = ask_one(node, incremental.IncrementalAlterConfigsRequest(list(resources)))
    return {(row.error_code, row.error_message) for row in answer.responses}


def many(count: int, kind: int = BROKER, name: str = "1", first: int = 0) -> incremental.AlterConfigsResource:
    changes = [incremental.AlterableConfig(f"x{number}", 0, "") for number in range(first, first + count)]
    return incremental.AlterConfigsResource(kind, name, changes)


def test_too_many_changes_in_one_request_are_refused_with_all_rows(node: Node) -> None:
    too_many = (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    assert alter(node, many(MAX_CHANGES), many(1, name="")) == {too_many}
    assert not node.config.own


def test_a_broker_with_too_many_properties_is_refused(node: Node) -> None:
    assert alter(node, many(MAX_BROKER_PROPERTIES)) == {(0, None)}
    ((error_code, message),) = alter(node, many(1, first=MAX_BROKER_PROPERTIES))
    assert error_code == ErrorCode.POLICY_VIOLATION
    assert "1000 properties set at most" in (message or "")
    assert len(node.config.own) == MAX_BROKER_PROPERTIES


def test_a_broker_with_too_much_config_text_is_refused(node: Node) -> None:
    texts = [incremental.AlterableConfig(f"x{number}", 0, "y" * 30_000) for number in range(34)]
    ((error_code, message),) = alter(node, incremental.AlterConfigsResource(BROKER, "1", texts))
    assert (error_code, "characters at most" in (message or "")) == (ErrorCode.POLICY_VIOLATION, True)
    assert alter(node, incremental.AlterConfigsResource(BROKER, "1", texts[:33])) == {(0, None)}


def test_too_many_groups_with_configs_are_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def group(name: str, timeout_ms: str | None) -> set[tuple[int, str | None]]:
        operation = 1 if timeout_ms is None else 0
        change = incremental.AlterableConfig("consumer.session.timeout.ms", operation, timeout_ms)
        return alter(node, incremental.AlterConfigsResource(32, name, [change]))

    monkeypatch.setattr(alter_configs, "MAX_RESOURCES", len(node.topics.state.configs) + 1)
    assert group("a", "50000") == {(0, None)}
    ((error_code, _),) = group("b", "50000")
    assert error_code == ErrorCode.POLICY_VIOLATION
    assert group("a", None) == {(0, None)}
    assert group("b", "50000") == {(0, None)}


def test_the_names_of_groups_with_configs_are_bounded_in_total(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name may have 32,767 characters, and one answer to ListConfigResources has all of them."""

    def group(name: str, timeout_ms: str | None = "50000") -> int:
        operation = 1 if timeout_ms is None else 0
        change = incremental.AlterableConfig("consumer.session.timeout.ms", operation, timeout_ms)
        ((error_code, _),) = alter(node, incremental.AlterConfigsResource(32, name, [change]))
        return error_code

    monkeypatch.setattr(alter_configs, "MAX_RESOURCE_CHARACTERS", 70_000)
    assert [group(name * 30_000) for name in "abc"] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert node.topics.state.resource_characters == 2 * (30_000 + len("consumer.session.timeout.ms50000"))
    assert group("a" * 30_000, "60000") == 0, "a change adds nothing"
    assert group("a" * 30_000, None) == 0
    assert group("c" * 30_000) == 0
    assert [group(name * 30_000, None) for name in "bc"] == [0, 0]
    assert node.topics.state.resource_characters == 0


def test_a_list_of_config_resources_larger_than_an_answer_is_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (100,))
    change = incremental.AlterableConfig("consumer.session.timeout.ms", 0, "50000")
    for name in "abc":
        alter(node, incremental.AlterConfigsResource(32, name * 40, [change]))
    response = ask_one(node, ListConfigResourcesRequest([32]))
    assert (response.error_code, len(response.config_resources)) == (many_rows.TOO_LARGE, 0)
