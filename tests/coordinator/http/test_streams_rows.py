"""Streams groups of a running server: their members with tasks, and what each member does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from muster.coordinator.alerts.group_watch import GroupWatch
from muster.coordinator.alerts.sampling import see_commits, see_members
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.console.server_source import ServerSource
from muster.coordinator.http.door import Door
from muster.coordinator.http.serving import ServerDoor
from muster.coordinator.server import Server, group_snapshots
from muster.coordinator.server.group_views import GroupView
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.system.jobs import at_once
from tests.coordinator.http.doors import ask
from tests.coordinator.http.test_door import read
from tests.support.muster import connected, running
from tests.support.share_members import configure
from tests.support.streams_members import StreamsThread

AT_ONCE = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}


@asynccontextmanager
async def application(topics: list[str]) -> AsyncIterator[tuple[Server, Door, list[StreamsThread]]]:
    """A server, its door, and two threads that are not members yet. Each task is to have a copy."""
    async with running(AT_ONCE, topics=topics) as server, connected(server, "one") as one, connected(server) as two:
        beside = ServerDoor(DoorAddress("127.0.0.1", 0), server, ServerMetrics())
        await beside.start()
        try:
            await configure(one, "g", {"streams.num.standby.replicas": "1"})
            yield server, beside.door, [StreamsThread(one, "g", "a", "t"), StreamsThread(two, "g", "b", "t")]
        finally:
            await beside.stop()


async def members(door: Door) -> dict[str, dict[str, Any]]:
    """The members in the answer of the API, by id. The answer fits its description."""
    answer = await read(door, "/api/v1/groups/g/members", "/api/v1/groups/{group}/members")
    return {one["member"]: one for one in answer["members"]}


async def test_members_have_the_tasks_that_they_run_and_keep_and_say_what_they_wait_for() -> None:
    async with application(["t:2"]) as (server, door, (a, b)):
        await a.settle()
        one = (await members(door))["a"]
        roles = {"active": {"0": [0, 1]}}
        assert one["tasks"] == {"assignment": roles, "target": roles, "revoking": {}}
        assert (one["assignment"], one["target"], one["revoking"]) == ({"t": [0, 1]}, {"t": [0, 1]}, {})
        assert (one["protocol"], one["client_id"], one["subscribed"]) == ("streams", "one", ["t"])
        assert (one["epoch"], one["settled"], one["doing"]) == (a.epoch, True, "has come to its target")
        await b.beat()
        await a.beat()
        assert {name: (row["doing"], row["settled"]) for name, row in (await members(door)).items()} == {
            "a": ("is to give tasks up", False), "b": ("waits for tasks that others have", False),
        }  # fmt: skip
        assert (await members(door))["a"]["revoking"] == {"t": a_gives(await members(door))}
        group = await read(door, "/api/v1/groups/g", "/api/v1/groups/{group}")
        assert (group["generation"], group["protocol"], group["state"]) == (b.epoch, "sticky", "Reconciling")
        await a.settle(b)
        found = await members(door)
        assert [found[name]["doing"] for name in "ab"] == ["has come to its target"] * 2
        for name, other in ("ab", "ba"):
            has, copies = (found[one]["tasks"]["assignment"] for one in (name, other))
            assert has["active"] == copies["standby"], "the other one keeps the copy"
        view = group_snapshots.describe(server, "g")
        assert view.is_stable
        assert GroupView.of_fields(view.as_fields()) == view
        assert "keeps 0:" in str(view)


def a_gives(found: dict[str, dict[str, Any]]) -> list[int]:
    gives: list[int] = found["a"]["tasks"]["revoking"]["active"]["0"]
    return gives


async def test_a_member_whose_tasks_lack_state_restores_them() -> None:
    async with application(["t:2"]) as (server, door, (a, _)):
        await a.settle()
        await a.beat(behind={0: 40, 1: 1})
        one = (await members(door))["a"]
        words = "restores the active task 0_0 (40 records behind), the active task 0_1 (1 record behind)"
        assert (one["doing"], one["settled"]) == (words, True)
        does = (await ServerSource(lambda: server).doing("g"))["a"]
        assert (does.words, does.is_settled, does.silent_ms is not None) == (words, True, True)
        shown = (await ask(door, "/console/groups/g"))[1]
        assert [(row["doing"], row["assignment"]) for row in shown["members"]] == [(words, {"0": [0, 1]})]
        settings = (await ask(door, "/console/groups/g/settings"))[1]["settings"]
        assert {row["name"].partition(".")[0] for row in settings} == {"streams"}
        await a.beat(behind={0: 0, 1: 0})
        assert (await members(door))["a"]["doing"] == "has come to its target"


async def test_members_wait_for_topics_that_do_not_exist() -> None:
    async with application([]) as (_, door, (a, _)):
        await a.beat()
        one = (await members(door))["a"]
        assert (one["doing"], one["settled"]) == ("waits for the topics of the application", False)
        assert (one["assignment"], one["tasks"]["assignment"]) == ({}, {})


async def test_alerts_know_who_holds_a_rebalance_up_and_who_reads_a_partition() -> None:
    async with application(["t:2"]) as (server, _, (a, b)):
        watches = {"g": GroupWatch()}
        await a.settle()
        at_once(see_commits(server, watches, 1))
        at_once(see_members(server, watches, {"g"}, 1))
        assert (watches["g"].owners, watches["g"].mixed) == ({("t", 0): "one", ("t", 1): "one"}, [])
        await b.beat()
        await a.beat()
        at_once(see_members(server, watches, {"g"}, 2))
        now = watches["g"].rebalancing
        assert now is not None
        assert (now.state, now.holding) == ("Reconciling", [("one", "is to give tasks up")])
