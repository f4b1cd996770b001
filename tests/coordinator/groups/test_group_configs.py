"""Configs of single groups apply at once, and in a new core from its start."""

from __future__ import annotations

from muster.coordinator.groups.common.settings import (
    GroupConfigs,
    GroupConfigured,
    GroupSettings,
    IntervalConfigured,
    OwnConfig,
)
from muster.coordinator.groups.core import GroupCore
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, given


def test_a_group_config_goes_before_the_brokers_setting() -> None:
    configs = GroupConfigs(GroupSettings())
    assert configs.of("g") == (45_000, 5_000, 1_000)
    configs.apply(GroupConfigured("g", OwnConfig(session_timeout_ms=50_000)))
    configs.apply(GroupConfigured("h", OwnConfig(heartbeat_interval_ms=6_000, assignment_interval_ms=0)))
    configs.apply(IntervalConfigured(7, 8))
    other = configs.copy()
    configs.apply(GroupConfigured("g", None))
    configs.apply(GroupConfigured("never", None))
    assert (configs.of("g"), configs.of("h"), configs.of("else")) == (
        (45_000, 5_000, 7),
        (45_000, 6_000, 0),
        (45_000, 5_000, 7),
    )
    assert (other.of("g"), other.version, configs.version) == ((50_000, 5_000, 7), 3, 5)


def test_a_changed_group_config_applies_from_the_next_heartbeat() -> None:
    harness = ConsumerGroupHarness(group_consumer_session_timeout_ms=10_000)
    assert harness.first_heartbeat("A", "t").heartbeat_interval_ms == 5_000
    harness.notify(GroupConfigured("g", OwnConfig(session_timeout_ms=20_000, heartbeat_interval_ms=6_000)))
    harness.notify(GroupConfigured("other", OwnConfig(session_timeout_ms=1, heartbeat_interval_ms=1)))
    assert harness.heartbeat("A").heartbeat_interval_ms == 6_000
    harness.advance(19_999)
    assert "A" in harness.consumers().members
    harness.advance(1)
    assert not harness.consumers().members


def test_a_group_can_have_its_own_assignment_interval() -> None:
    harness = ConsumerGroupHarness()
    harness.notify(GroupConfigured("g", OwnConfig(assignment_interval_ms=1_000)))
    harness.first_heartbeat("A", "t")
    assert (harness.first_heartbeat("B", "t").member_epoch, harness.consumers().state) == (2, "Assigning")
    harness.notify(GroupConfigured("g", OwnConfig()))
    assert harness.heartbeat("B", 2).member_epoch == 3
    harness.notify(IntervalConfigured(1_000, 1_000))
    assert harness.first_heartbeat("C", "t").member_epoch == 3
    assert harness.consumers().state == "Assigning"


def test_a_new_core_uses_group_configs_for_loaded_sessions() -> None:
    harness = ConsumerGroupHarness(group_consumer_session_timeout_ms=10_000)
    assert given(harness.first_heartbeat("A", "t")) == "t0+1+2+3+4+5+6+7"
    configs = GroupConfigs(harness.settings)
    configs.apply(GroupConfigured("g", OwnConfig(session_timeout_ms=20_000)))
    core = GroupCore(harness.settings, harness.core.state.image, configs=configs)
    core.replay([(one.key, one.value) for one in harness.records], harness.now)
    core.loaded(harness.now)
    assert core.next_deadline_ms() == harness.now.mono_ms + 20_000
