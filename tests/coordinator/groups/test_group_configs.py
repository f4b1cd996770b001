"""What single groups are configured with counts at once, and for a new core from the beginning."""

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


def test_what_is_set_counts_before_what_the_broker_says() -> None:
    configs = GroupConfigs(GroupSettings())
    assert configs.of("g") == (45_000, 5_000, 1_000)
    configs.apply(GroupConfigured("g", OwnConfig(session_timeout_ms=50_000)))
    configs.apply(GroupConfigured("h", OwnConfig(heartbeat_interval_ms=6_000, assignment_interval_ms=0)))
    configs.apply(IntervalConfigured(7))
    other = configs.copy()
    configs.apply(GroupConfigured("g", None))
    configs.apply(GroupConfigured("never", None))
    assert (configs.of("g"), configs.of("h"), configs.of("else")) == (
        (45_000, 5_000, 7),
        (45_000, 6_000, 0),
        (45_000, 5_000, 7),
    )
    assert (other.of("g"), other.version, configs.version) == ((50_000, 5_000, 7), 3, 5)


def test_a_members_next_heartbeat_is_answered_with_the_new_interval_and_begins_the_new_session() -> None:
    harness = ConsumerGroupHarness(group_consumer_session_timeout_ms=10_000)
    assert harness.enter("A", "t").heartbeat_interval_ms == 5_000
    harness.notify(GroupConfigured("g", OwnConfig(session_timeout_ms=20_000, heartbeat_interval_ms=6_000)))
    harness.notify(GroupConfigured("other", OwnConfig(session_timeout_ms=1, heartbeat_interval_ms=1)))
    assert harness.cast("A").heartbeat_interval_ms == 6_000
    harness.advance(19_999)
    assert "A" in harness.consumers().members
    harness.advance(1)
    assert not harness.consumers().members


def test_the_assignment_interval_of_a_group() -> None:
    harness = ConsumerGroupHarness()
    harness.notify(GroupConfigured("g", OwnConfig(assignment_interval_ms=1_000)))
    harness.enter("A", "t")
    assert (harness.enter("B", "t").member_epoch, harness.consumers().state) == (2, "Assigning")
    harness.notify(GroupConfigured("g", OwnConfig()))
    assert harness.cast("B", 2).member_epoch == 3
    harness.notify(IntervalConfigured(1_000))
    assert harness.enter("C", "t").member_epoch == 3
    assert harness.consumers().state == "Assigning"


def test_a_core_begins_with_configs_and_sessions_that_are_loaded_run_by_them() -> None:
    harness = ConsumerGroupHarness(group_consumer_session_timeout_ms=10_000)
    assert given(harness.enter("A", "t")) == "t0+1+2+3+4+5+6+7"
    configs = GroupConfigs(harness.settings)
    configs.apply(GroupConfigured("g", OwnConfig(session_timeout_ms=20_000)))
    core = GroupCore(harness.settings, harness.core.state.image, configs=configs)
    core.replay([(one.key, one.value) for one in harness.records], harness.now)
    core.loaded(harness.now)
    assert core.next_deadline_ms() == harness.now.mono_ms + 20_000
