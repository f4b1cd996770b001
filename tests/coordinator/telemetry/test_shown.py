"""Where the reports of clients are shown: DescribeConfigs, events of lost members, and metrics."""

from __future__ import annotations

import json
from typing import Any

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts
from muster.coordinator.history import schema
from muster.coordinator.history.timeline import Timeline
from muster.coordinator.server.exposition import exposition
from muster.coordinator.server.histories import GroupObservers
from muster.coordinator.server.metrics import MAX_GROUPS, client_metrics
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from muster.coordinator.telemetry.otlp import decode
from muster.coordinator.telemetry.reports import CONFIG, ClientReports
from muster.coordinator.telemetry.subscriptions import ClientFacts
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.coordinator.api import harness
from tests.coordinator.api.data_plane import data_node
from tests.coordinator.telemetry.support import of_member

NOW = Now(1_000_000, 1_700_000_000_000)


def reports_of(*pushed: tuple[str, str, dict[str, float]]) -> ClientReports:
    store = ClientReports()
    for group_id, member_id, gauges in pushed:
        client = ClientFacts(f"id of {member_id}", "c", "apache-kafka-java", "4.4.0", "127.0.0.1", "1")
        store.add(client, decode(0, of_member(group_id, member_id, **gauges), 1 << 20), NOW, 60_000, has_ended=False)
    return store


SLOW = ("g", "m", {"last_poll_seconds_ago": 290.0, "coordinator_failed_rebalance_total": 2.0})


def described(store: ClientReports | None, name: str, *keys: str) -> dict[str, Any]:
    node = data_node()
    node.client_reports = store
    row = DescribeConfigsResource(16, name, [*keys] or None)
    (result,) = harness.ask(node, DescribeConfigsRequest([row])).one().results
    assert not result.error_code
    return {config.name: config.value for config in result.configs}


def test_reports_are_a_config_that_only_a_request_for_it_gets() -> None:
    store = reports_of(SLOW)
    assert CONFIG not in described(store, "*")
    (one,) = json.loads(described(store, "*", CONFIG)[CONFIG])
    assert (one["group"], one["member"], one["figures"]) == ("g", "m", {"last_poll_s": 290.0, "failed_rebalances": 2.0})
    assert "series" not in one
    (whole,) = json.loads(described(store, "id of m", CONFIG)[CONFIG])
    assert whole["series"]["org.apache.kafka.consumer.last.poll.seconds.ago"] == 290.0
    assert described(store, "unknown", CONFIG) == {CONFIG: "[]"}
    assert described(None, "*", CONFIG) == {}


def lost(member_id: str, store: ClientReports) -> dict[str, Any]:
    """The event of a member that left 11 s after its push, as the callback and `__group_events` get it."""
    member = MemberFacts(member_id, None, "c", "/127.0.0.1", 45_000, 300_000, (), None, None, None, b"")
    seen: list[Event] = []
    observers = GroupObservers(None, lambda some, _: seen.extend(some), store)
    later = Now(NOW.mono_ms + 11_000, NOW.wall_ms + 11_000)
    observers.report([Event(events.MEMBER_LEFT, "g", {"member": member, "reason": "poll timeout"})], later)
    value: dict[str, Any] = json.loads(schema.to_json(seen[0], later.wall_ms))
    return value


def test_the_event_of_a_lost_member_says_when_it_had_polled_last() -> None:
    value = lost("m", reports_of(SLOW))
    assert (value["last_poll"], value["reported"]) == (NOW.wall_ms - 290_000, NOW.wall_ms)
    (line,) = Timeline(dates=False, everything=True).feed(value)
    assert line.endswith('left: "poll timeout"; its last poll was 5 min 1 s before')


def test_a_member_that_polls_or_reports_nothing_has_a_usual_event() -> None:
    for store in (reports_of(("g", "m", {"last_poll_seconds_ago": 1.0})), reports_of(("g", "other", {}))):
        assert not {"last_poll", "reported"} & lost("m", store).keys()


def test_metrics_have_the_worst_figure_of_each_group_for_a_bounded_number_of_groups() -> None:
    members = [("g", "a", {"last_poll_seconds_ago": 3.0}), ("g", "b", {"last_poll_seconds_ago": 7.0})]
    many = [(f"h{number}", f"m{number}", {"last_poll_seconds_ago": 1.0}) for number in range(MAX_GROUPS)]
    store = reports_of(*members, *many)
    metrics = at_once(client_metrics(store, ManualClock(NOW.mono_ms, NOW.wall_ms)))
    text = b"".join(at_once(exposition(metrics))).decode()
    assert 'muster_member_last_poll_seconds{group="g"} 7\n' in text
    assert text.count("muster_member_last_poll_seconds{") == MAX_GROUPS
    assert f"muster_client_reports {MAX_GROUPS + 2}\n" in text
