"""Histories of classic groups, played as KIP-848 groups: what this saves, and what not."""

from __future__ import annotations

import pytest

from muster.pipeline.whatif import from_events
from muster.pipeline.whatif.compare import compare
from muster.pipeline.whatif.costs import Figures
from muster.pipeline.whatif.settings import Setting, parse
from tests.pipeline.whatif.reality import GROUP, Consumer
from tests.pipeline.whatif.test_compare import PARTITIONS, asked, figures, near, restart, running
from tests.pipeline.whatif.test_random import random_reality


def test_members_of_a_consumer_group_never_stop_kept_partitions() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 5_000)
    actual, (consumer,) = asked(world, "consumer")
    assert actual.rebalances == 3
    assert actual.paused_partition_ms > PARTITIONS * 6_000
    assert consumer.paused_partition_ms < actual.paused_partition_ms / 2
    assert consumer.silent_partition_ms == 0
    # one joined, two more within group.consumer.assignment.interval.ms, one left and returned
    assert consumer.rebalances == 4


def test_a_group_that_forms_does_not_wait() -> None:
    world, _ = running("a")
    _, (consumer,) = asked(world, "consumer")
    assert consumer == Figures(1, 0, 0, 0, None)


def test_a_member_that_leaves_pauses_only_what_it_had() -> None:
    world, members = running("a", "b", "c")
    (before,) = asked(world, "consumer")[1]
    members["b"].stop()
    world.run(60_000)
    _, (consumer,) = asked(world, "consumer")
    paused_ms = consumer.paused_partition_ms - before.paused_partition_ms
    assert 0 < paused_ms <= 3 * 5_000 + 100
    assert consumer.moved_partitions - before.moved_partitions == 3


def test_a_death_is_noticed_after_the_session_of_the_server() -> None:
    world, members = running("a", "b", "c")
    members["b"].crash()
    world.run(120_000)
    actual, (consumer, quick) = asked(world, "consumer", "consumer,session.timeout.ms=6000")
    assert consumer.detect_ms == near(45_000)
    assert consumer.silent_partition_ms == near(3 * 45_000)
    assert quick.detect_ms == near(6_000)
    assert actual.detect_ms == near(10_000)


def test_a_static_member_that_comes_back_has_what_it_had() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 5_000)
    _, (consumer, static) = asked(world, "consumer", "consumer,static")
    assert static.rebalances == 2  # those that formed the group
    assert static.silent_partition_ms == near(3 * 5_000)
    assert static.paused_partition_ms < consumer.paused_partition_ms


def test_a_growing_topic_is_replayed_as_a_consumer_group() -> None:
    world, members = running("a", "b", "c")
    world.grow("t", 12)
    for member in members.values():
        member.rejoin()
    world.run(60_000)
    _, (consumer,) = asked(world, "consumer")
    assert consumer.rebalances == 3


def test_a_quick_heartbeat_makes_handing_over_quick() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 5_000)
    _, (usual, quick) = asked(world, "consumer", "consumer,heartbeat.interval.ms=1000")
    assert quick.paused_partition_ms < usual.paused_partition_ms


def test_a_strategy_that_no_server_has_is_refused() -> None:
    world, _ = running("a", "b")
    history = from_events.history_of(GROUP, world.events)
    settings = [Setting(), Setting("odd", "sticky", protocol="consumer"), *parse("consumer,assignor=range")]
    found = compare(history, [*settings, *parse("classic")])
    assert found.whatif[1].why == "in a KIP-848 group the server assigns, by uniform or range, not by sticky"
    assert found.whatif[2].figures is not None
    assert found.whatif[3].figures == found.actual
    assert len(figures(found)) == 2


@pytest.mark.parametrize("seed", range(12))
def test_any_history_can_be_played(seed: int) -> None:
    found = compare(from_events.history_of(GROUP, random_reality(seed).events), parse("consumer"))
    assert [one.why for one in found.whatif] == [None]
    (row,) = found.whatif
    assert row.figures is not None
    assert row.figures.paused_partition_ms >= 0
    assert row.figures.silent_partition_ms >= 0


def test_a_history_that_begins_with_members() -> None:
    world, members = running("a", "b", "c")
    begun = len(world.events)
    members["b"].stop()
    world.run(60_000)
    first = max(at for at, one in enumerate(world.events[:begun]) if one["kind"] == "rebalance_completed")
    found = compare(from_events.history_of(GROUP, world.events[first:], world.ms), parse("consumer"))
    (row,) = found.whatif
    assert row.figures is not None
    assert (row.figures.rebalances, row.figures.moved_partitions) == (1, 3)


def test_slow_members_delay_only_the_next_owners_of_their_partitions() -> None:
    world, members = running("a", "b")
    slow: Consumer = members["a"]
    slow.slow_ms = 40_000
    late = Consumer(world, "c", "range")
    late.start()
    world.run(120_000)
    actual, (consumer,) = asked(world, "consumer")
    # a gives c's partitions up only when it polls again
    assert consumer.paused_partition_ms < actual.paused_partition_ms
