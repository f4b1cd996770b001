"""Cached heartbeats of streams groups: accepted only if the plain path gives the same answer and changes the same."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from muster.coordinator.groups.common.settings import GroupConfigured, OwnStreams
from muster.coordinator.groups.streams import steady
from muster.coordinator.groups.streams.steady import SteadyMember
from muster.coordinator.state_machine.interface import Client
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
)
from tests.coordinator.groups.streams.harness import StreamsGroupHarness, topics
from tests.coordinator.groups.streams.topologies import sent

CLIENT = Client("c", "/h")


def prepared(harness: StreamsGroupHarness, member: str, client: Client = CLIENT, **said: Any) -> SteadyMember | None:
    group = harness.streams()
    fields = {"member_epoch": group.members[member].position.epoch, "endpoint_information_epoch": group.endpoint_epoch}
    request = StreamsGroupHeartbeatRequest("g", member, **{**fields, **said})
    return steady.prepare_heartbeat(harness.core.state, request, client)


def beats(one: SteadyMember, harness: StreamsGroupHarness, member: str) -> bool:
    """Let the steady member handle a heartbeat; if it does, the plain path must give the same."""
    if not one.heartbeat(harness.now.mono_ms):
        return False
    before = harness.streams().members[member]
    due_ms = before.due_ms
    harness.written()
    harness.kinds()
    endpoints = one.response.endpoint_information_epoch
    assert harness.heartbeat(member, one.response.member_epoch, endpoint_information_epoch=endpoints) == one.response
    assert (harness.written(), harness.kinds()) == ([], [])
    assert harness.streams().members[member] is before
    assert before.due_ms == due_ms
    return True


def test_a_cached_heartbeat_is_accepted_only_if_the_plain_path_gives_the_same() -> None:
    took = Counter[bool]()
    for seed in range(10):
        play(Random(seed), took)
    assert took[True] > 100
    assert took[False] > 100


def play(random: Random, took: Counter[bool]) -> None:
    """A history of some members, whose heartbeats were prepared at any time."""
    harness = StreamsGroupHarness(group_streams_num_standby_replicas=random.randrange(2))
    kinds = ["beat"] * 8 + ["join", "join", "leave", "pass", "topics", "config", "endpoint", "shutdown", "tags"]
    made: dict[str, SteadyMember] = {}
    for _ in range(100):
        member, what = random.choice("ABC"), random.choice(kinds)
        group = harness.core.state.groups.get("g")
        there = group is not None and member in harness.streams().members
        if what == "join":
            harness.heartbeat(member, 0, "0:t%s")
            harness.change_topics(topics(t=3, u=2, s=3))
        elif what == "pass":
            harness.advance(random.choice([10, 20_000, 44_000]))
        elif what == "topics":
            count = random.randint(2, 4)
            harness.change_topics(topics(t=count, s=count))
        elif what == "config":
            own = OwnStreams(session_timeout_ms=random.choice([None, 40_000, 50_000]))
            harness.notify(GroupConfigured("g", None, None, random.choice([None, own])))
        elif what == "tags" and not random.randrange(5):
            harness.notify(GroupConfigured("g", None, None, OwnStreams(rack_tags=("zone",))))
        elif there and what == "leave":
            harness.heartbeat(member, -1)
        elif there and what == "endpoint":
            harness.heartbeat(member, endpoint=f"h:{random.randrange(3)}", version=1)
        elif there and what == "shutdown" and not random.randrange(4):
            harness.heartbeat(member, shutdown_application=True)
        elif there:
            harness.heartbeat(member, **released(harness, member))
            found = prepared(harness, member)
            if found is not None:
                made[member] = found
        for name, one in made.items():
            group = harness.core.state.groups.get("g")
            if group is None or name not in harness.streams().members:
                assert not one.heartbeat(harness.now.mono_ms)
            else:
                took[beats(one, harness, name)] += 1


def released(harness: StreamsGroupHarness, member: str) -> dict[str, str]:
    """The tasks of a member, without those that it has to give up."""
    held = harness.streams().members[member].position.assigned
    return {
        kind: ",".join(f"{name}/{'+'.join(map(str, sorted(its)))}" for name, its in tasks.items() if its)
        for kind, tasks in zip(("active", "standby", "warmup"), held, strict=True)
    }


def test_a_heartbeat_that_says_something_or_is_of_another_client_is_not_cached() -> None:
    harness = StreamsGroupHarness()
    request = StreamsGroupHeartbeatRequest("g", "A", 2)
    assert steady.prepare_heartbeat(harness.core.state, request, CLIENT) is None
    harness.heartbeat("A", 0, "0:t", instance_id="i")
    assert prepared(harness, "A") is None  # a new group has not compared its topics yet
    harness.heartbeat("A")
    assert prepared(harness, "A", instance_id="i") is not None
    for said in (
        {"member_epoch": 1}, {"endpoint_information_epoch": 7}, {"instance_id": "j"}, {"rack_id": "r"},
        {"rebalance_timeout_ms": 1}, {"topology": sent("0:t")}, {"active_tasks": []}, {"standby_tasks": []},
        {"warmup_tasks": []}, {"process_id": "p"}, {"client_tags": []}, {"task_offsets": []}, {"task_end_offsets": []},
        {"user_endpoint": StreamsGroupHeartbeatRequestEndpoint("h", 1)}, {"shutdown_application": True},
    ):  # fmt: skip
        assert prepared(harness, "A", **said) is None, said
    assert prepared(harness, "A", Client("c", "/other")) is None
    assert prepared(harness, "A", Client("d", "/h")) is None
    assert steady.prepare_heartbeat(harness.core.state, StreamsGroupHeartbeatRequest("g", "B", 2), CLIENT) is None


def test_a_heartbeat_of_a_group_that_is_not_ready_is_not_cached() -> None:
    harness = StreamsGroupHarness()
    harness.heartbeat("A", 0, "0:nope")
    harness.heartbeat("A")
    assert prepared(harness, "A") is None


def test_a_cached_heartbeat_is_not_accepted_if_the_session_got_shorter() -> None:
    harness = StreamsGroupHarness()
    harness.heartbeat("A", 0, "0:t")
    harness.heartbeat("A")
    harness.notify(GroupConfigured("g", None, None, OwnStreams(session_timeout_ms=40_000)))
    found = prepared(harness, "A")
    assert found is not None
    assert not beats(found, harness, "A")  # the deadline is later in the queue
    harness.heartbeat("A")
    found = prepared(harness, "A")
    assert found is not None
    assert beats(found, harness, "A")
