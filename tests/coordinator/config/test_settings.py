"""The settings of each package: every field is a property, and its default is Kafka's."""

import dataclasses
from typing import Any

import pytest

from muster.coordinator.config import load
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.log.settings import LogSettings
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.server.nodes.common import LeadershipSettings
from muster.coordinator.topics.settings import TopicSettings

ROOMS = (LeadershipSettings, GroupSettings, LogSettings, NetSettings, TopicSettings)


@pytest.mark.parametrize("room", ROOMS)
def test_defaults_are_kafkas(room: type[Any]) -> None:
    assert load().settings(room) == room()


@pytest.mark.parametrize("room", ROOMS)
def test_settings_cannot_be_changed(room: type[Any]) -> None:
    settings = load().settings(room)
    name = dataclasses.fields(room)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(settings, name, 1)


def test_values_come_from_the_properties() -> None:
    given = [
        "group.max.size=7",
        "log.cleanup.policy=compact,delete",
        "auto.create.topics.enable=false",
        "log.roll.ms=5",
    ]
    config = load(overrides=given)
    assert config.settings(GroupSettings).group_max_size == 7
    assert config.settings(LogSettings).log_cleanup_policy == ("compact", "delete")
    assert config.settings(LogSettings).log_roll_ms == 5
    assert config.settings(TopicSettings).auto_create_topics_enable is False


@dataclasses.dataclass(frozen=True)
class Wrong:
    no_such_property: int = 1


def test_a_settings_field_that_is_no_property_raises_an_error() -> None:
    with pytest.raises(LookupError, match=r"no\.such\.property"):
        load().settings(Wrong)


def test_settings_must_be_a_dataclass() -> None:
    with pytest.raises(TypeError, match="no dataclass"):
        load().settings(int)
