"""A running server with real clients: what it judges, logs, serves and sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.alerts.book import ENDED_MS, FIRING
from muster.coordinator.alerts.event_values import value_of
from muster.coordinator.alerts.reporting import checked
from muster.coordinator.alerts.settings import AlertSettings
from muster.coordinator.alerts.watching import SAMPLE_LOOKS, GroupAlerts
from muster.coordinator.alerts.webhooks import Webhooks
from muster.coordinator.config import ConfigError, load
from muster.coordinator.groups.common import events
from muster.coordinator.history import schema
from muster.coordinator.server import group_snapshots
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.system.clock import LoopClock, ManualClock
from muster.coordinator.system.jobs import to_its_end
from muster.coordinator.system.jobs.jobs import AtOnce
from muster.pipeline.episodes.thresholds import STUCK_MS
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import NewRecord
from tests.coordinator.groups.harness import GroupHarness
from tests.e2e.aio import consuming
from tests.e2e.ledger import eventually
from tests.support.share_members import ACCEPT, RELEASE, configure, share_member
from tests.testcontrol.server import bootstrap, controlled


@asynccontextmanager
async def watched() -> AsyncIterator[tuple[ServerControl, GroupAlerts, list[dict[str, Any]]]]:
    sent: list[dict[str, Any]] = []
    hooks = Webhooks(["http://hooks.example"], lambda _, body: sent.append(json.loads(body)), ManualClock(), AtOnce)
    metrics, alerts = ServerMetrics(), GroupAlerts(AlertSettings(), hooks)
    metrics.subscribe(alerts.take)
    async with controlled(metrics=metrics) as found:
        alerts.watch(LoopClock(asyncio.get_running_loop()), lambda: None)
        yield found, alerts, sent
        alerts.stop()


async def test_a_group_that_is_stuck_is_logged_served_and_sent_and_ends() -> None:
    async with watched() as (found, alerts, sent):
        server = found.server
        async with consuming(bootstrap(found), "orders", group_id="g", client_id="c"):
            await found.groups.wait_stable("g", members=1, partitions="orders")
            found.groups.hold_joins("g")
            found.groups.rebalance("g")
            await to_its_end(server.job_queue, alerts.look(server))
            assert alerts.book.open() == []
            (watch,) = alerts._watches.values()
            assert watch.rebalancing is not None
            assert watch.rebalancing.state == "PreparingRebalance"
            watch.rebalancing = watch.rebalancing._replace(since_ms=watch.rebalancing.since_ms - STUCK_MS)
            with capture_logs() as lines:
                await to_its_end(server.job_queue, alerts.look(server))
            assert [(one["event"], one["rule"], one["group"]) for one in lines if "rule" in one] == [
                ("a group needs help", "stuck", "g")
            ]
            assert [(one["type"], one["subject"]) for one in sent] == [(f"muster.alert.{FIRING}", "g")]
            assert {metric.name: metric.samples for metric in alerts.reports.metrics()} == {
                "muster_alerts": {("g", "stuck"): 1},
                "muster_alerts_total": {("stuck",): 1},
                "muster_alert_events_total": {("sent",): 1},
            }
            found.groups.release("g")
            await found.groups.wait_stable("g", members=1, partitions="orders")
            await to_its_end(server.job_queue, alerts.look(server))
            assert watch.rebalancing is None
            for entry in alerts.book._entries.values():
                entry.seen_ms -= ENDED_MS
            await to_its_end(server.job_queue, alerts.look(server))
        assert alerts.book.open() == []
        assert [one["data"]["status"] for one in sent] == ["firing", "resolved"]


async def test_the_commits_and_the_members_of_a_running_group_are_seen() -> None:
    async with watched() as (found, alerts, _):
        server = found.server
        async with consuming(bootstrap(found), "orders", group_id="g", client_id="c") as consumer:
            await found.groups.wait_stable("g", members=1, partitions="orders")
            await found.topics.produce("orders", [NewRecord(b"x", partition=0)] * 3)
            await consumer.commit(dict.fromkeys(consumer.assignment(), 1))
            await to_its_end(server.job_queue, alerts.look(server))
            (watch,) = alerts._watches.values()
            assert [(one.topic, one.partition, one.lag, one.owner) for one in watch.commits.lags(watch.owners)] == [
                ("orders", 0, 2, "c")
            ]
            assert watch.owners == {("orders", 0): "c", ("orders", 1): "c"}


async def test_the_deliveries_of_a_running_share_group_are_judged() -> None:
    async with watched() as (found, alerts, _):
        server = found.server
        await found.topics.create("queue", 1)
        await found.topics.produce("queue", [NewRecord(b"x")] * 5)
        async with share_member(server, "g", "w", "queue") as member:
            await configure(member.client, "g", {"share.delivery.count.limit": "3"})
            await member.fetch()
            await member.acknowledge({0: [(0, 0, RELEASE)]})
            await to_its_end(server.job_queue, alerts.look(server))
            await member.acknowledge({0: [(1, 4, ACCEPT)]})
            for deliveries in (2, 3):
                assert await member.fetch() == [(0, 0, 0, deliveries)]
                await member.acknowledge({0: [(0, 0, RELEASE)]})
            for _ in range(SAMPLE_LOOKS):
                await to_its_end(server.job_queue, alerts.look(server))
            (alert,) = alerts.book.open()
            assert (alert.group, alert.rule, alert.who) == ("g", "poison_record", ("queue-0",))
            shares = alerts._watches["g"].shares
            assert shares is not None
            facts = shares.facts()
            assert [(one.accepted, one.archived, one.lag) for one in facts.partitions] == [(4, 1, 0)]
            assert [(one.name, one.client) for one in facts.holds] == [("queue-0", "w")]


async def test_what_happened_before_a_restart_is_read_from_the_history() -> None:
    async with controlled() as found:
        server = found.server
        async with consuming(bootstrap(found), "orders", group_id="g", client_id="c"):
            await found.groups.wait_stable("g", members=1, partitions="orders")
        await eventually(lambda: found.groups.describe("g").state == "Empty")
        alerts = GroupAlerts(AlertSettings(), Webhooks([], lambda *_: None, ManualClock(), AtOnce))
        clock = ManualClock()
        alerts.watch(clock, lambda: server)
        while not any(event["kind"] == "group_emptied" for event in await history(found, "g")):  # noqa: ASYNC110  # the history has no event
            await asyncio.sleep(0.01)
        (joined,) = (event for event in await history(found, "g") if event["kind"] == "member_joined")
        await to_its_end(server.job_queue, alerts.look(server))
        watch = alerts._watches["g"]
        assert [one.who.member_id for one in watch._reader.all_stays()] == [joined["member"]["member"]]
        assert [one.cause for one in watch._reader.rebalances] == ["member_joined", "member_left"]
        assert len(watch._reader.rebalances) == 2  # another look reads nothing again
        await to_its_end(server.job_queue, alerts.look(server))
        assert len(watch._reader.rebalances) == 2


async def history(found: ServerControl, group: str) -> list[dict[str, Any]]:
    return [event for some in group_snapshots.events(found.server, group) for event in some]


def test_the_values_of_events_are_those_of_the_history() -> None:
    harness = GroupHarness()
    for member in harness.stable():
        harness.leave(member)
    harness.advance(60_000)
    seen = set()
    for event in harness.events:
        seen.add(event.kind)
        written = json.loads(schema.to_json(event, 7))
        made = value_of(event, 7)
        for name in ("kind", "group", "time", "generation", "cause", "took_ms", "protocol"):
            assert made.get(name) == written.get(name), (event.kind, name)
        for name in ("member", "trigger"):
            if written.get(name):
                assert made[name].items() <= written[name].items() or name == "trigger"
        if event.kind == events.REBALANCE_COMPLETED:
            assert [one["member"] for one in made["members"]] == [one["member"] for one in written["members"]]
            assert made["before"] == written["before"]
            assert made["moves"] == [{key: row[key] for key in made["moves"][0]} for row in written["moves"] or []] or (
                written["moves"] is None and made["moves"] == []
            )
    assert {events.MEMBER_JOINED, events.REBALANCE_COMPLETED, events.GROUP_EMPTIED} <= seen


@pytest.mark.parametrize(
    "override", ["muster.alerts.quiet.times=at night", "muster.alerts.webhooks=hooks.example/secret"]
)
def test_wrong_settings_are_refused(override: str) -> None:
    config = load(overrides=[override], in_memory=True)
    with pytest.raises(ConfigError, match=override.partition("=")[0]):
        checked(config)
    assert checked(load(in_memory=True)).muster_alerts_enable
