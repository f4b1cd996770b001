"""Topic configurations: checked as LogConfig does, with the broker's values as defaults."""

import pytest

from muster.coordinator.properties import resource_configs
from muster.coordinator.properties.definition import InvalidProperty, Value
from muster.coordinator.properties.lookup import BROKER, TOPIC


def default_value(name: str) -> Value:
    return BROKER[name].default_value


def test_topic_config_values_are_typed() -> None:
    given: dict[str, str | None] = {"retention.ms": " 5 ", "cleanup.policy": "compact, delete", "preallocate": "TRUE"}
    assert resource_configs.validate_topic(given, default_value) == {
        "cleanup.policy": ("compact", "delete"),
        "preallocate": True,
        "retention.ms": 5,
    }


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"retention": "5"}, "Unknown topic config name: retention"),
        ({"log.retention.ms": "5"}, "Unknown topic config name: log.retention.ms"),
        ({"a": None, "retention.ms": None}, "Null value not supported for topic configs: a,retention.ms"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_wrong_topic_configs_are_refused_with_kafkas_message(configs: dict[str, str | None], message: str) -> None:
    with pytest.raises(InvalidProperty) as caught:
        resource_configs.validate_topic(configs, default_value)
    assert str(caught.value) == message


def test_every_topic_config_has_kafkas_default() -> None:
    assert resource_configs.effective_topic({}, default_value) == {
        name: prop.default_value for name, prop in TOPIC.items()
    }


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"log.retention.hours": 2}, "retention.ms", 7_200_000),
        ({"log.retention.hours": 2, "log.retention.minutes": 3}, "retention.ms", 180_000),
        ({"log.retention.minutes": 3, "log.retention.ms": 4}, "retention.ms", 4),
        ({"log.retention.hours": -1}, "retention.ms", -1),
        ({"log.roll.hours": 1}, "segment.ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": 9}, "flush.ms", 9),
        ({"message.max.bytes": 77}, "max.message.bytes", 77),
    ],
)
def test_the_brokers_value_applies_if_the_topic_has_none(given: dict[str, Value], name: str, value: Value) -> None:
    def broker(synonym: str) -> Value:
        return given[synonym] if synonym in given else BROKER[synonym].default_value

    assert resource_configs.effective_topic({}, broker)[name] == value
    own = "12345" if TOPIC[name].type != "LIST" else "delete"
    assert resource_configs.effective_topic({name: own}, broker)[name] == 12345


def test_append_and_subtract_change_lists() -> None:
    assert resource_configs.list_append("delete", "compact,delete") == "delete,compact"
    assert resource_configs.list_subtract("delete,compact", "delete") == "compact"


@pytest.mark.parametrize(
    ("current", "change", "more", "fewer"),
    [
        ("delete", "", "delete,", "delete"),
        ("delete", " compact", "delete, compact", "delete"),
        ("delete", "compact,", "delete,compact", "delete"),
        ("delete", ",compact", "delete,,compact", "delete"),
        ("compact, delete", "delete", "compact, delete,delete", "compact, delete"),
        ("compact, delete", "compact", "compact, delete", " delete"),
        ("delete,delete", "delete", "delete,delete", "delete"),
        ("", "compact", "compact", ""),
        (None, "a,a", "a", ""),
    ],
)
def test_append_and_subtract_use_words_unchanged(current: str | None, change: str, more: str, fewer: str) -> None:
    assert (resource_configs.list_append(current, change), resource_configs.list_subtract(current, change)) == (
        more,
        fewer,
    )
