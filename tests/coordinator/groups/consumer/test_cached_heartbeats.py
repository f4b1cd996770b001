"""Cached heartbeats are accepted only if the plain path gives the same answer and changes the same."""

from __future__ import annotations

from collections import Counter
from random import Random

from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.common.settings import GroupConfigured, IntervalConfigured, OwnConfig
from muster.coordinator.groups.consumer import heartbeat
from muster.coordinator.groups.consumer.heartbeat import SteadyMember
from muster.coordinator.state_machine.interface import Client
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, topics

CLIENT = Client("c", "/10.0.0.1")


def prepare(
    harness: ConsumerGroupHarness, member: str, epoch: int | None = None, client: Client = CLIENT, **said: object
) -> SteadyMember:
    epoch = harness.member(member).position.epoch if epoch is None else epoch
    request = ConsumerGroupHeartbeatRequest("g", member, epoch, **said)
    found = heartbeat.prepare_heartbeat(harness.core.state, request, client)
    assert found is not None
    return found


def beats(steady: SteadyMember, harness: ConsumerGroupHarness, member: str) -> bool:
    """Let the steady member handle a heartbeat; if it does, the plain path must give the same."""
    before = harness.member(member)
    if not steady.heartbeat(harness.now.mono_ms):
        return False
    due_ms = before.due_ms
    harness.written()
    assert harness.heartbeat(member, steady.response.member_epoch) == steady.response
    assert harness.written() == []
    assert harness.member(member) is before
    assert before.due_ms == due_ms
    return True


def test_a_cached_consumer_heartbeat_is_accepted_only_if_the_plain_path_gives_the_same() -> None:
    took = Counter[bool]()
    for seed in range(40):
        play(Random(seed), took)
    assert took[True] > 400
    assert took[False] > 400


def play(random: Random, took: Counter[bool]) -> None:
    """A history of some members, whose heartbeats were prepared at any time."""
    harness = ConsumerGroupHarness(group_consumer_session_timeout_ms=5_000)
    made: dict[str, SteadyMember] = {}
    for _ in range(120):
        member = random.choice("ABCD")
        group = harness.core.state.groups.get("g")
        there = group is not None and member in harness.consumers().members
        what = random.choice(["beat"] * 6 + ["join", "leave", "pass", "topics", "config", "interval", "say", "pattern"])
        if what == "join":
            harness.first_heartbeat(
                member, *random.choice([["t"], ["t", "u"]]), instance=random.choice([None, f"i{member}"])
            )
        elif what == "pass":
            harness.advance(random.choice([10, 1_000, 4_999]))
        elif what == "topics":
            harness.notify(TopicsChanged(topics(t=random.randint(1, 4), u=2)))
        elif what == "config":
            own = random.choice([None, OwnConfig(random.choice([None, 4_000, 6_000]), random.choice([None, 7_000]))])
            harness.notify(GroupConfigured("g", own))
        elif what == "interval":
            harness.notify(IntervalConfigured(random.choice([0, 500]), 1_000))
        elif not there:
            continue
        elif what == "leave":
            harness.heartbeat(member, random.choice([-1, -2]), instance=harness.member(member).description.instance_id)
        elif what == "say":
            wish = random.choice([None, None, "range", "uniform"])
            harness.heartbeat(member, names=random.choice([["t"], ["u"]]), assignor=wish)
        elif what == "pattern" and not random.randrange(5):
            harness.heartbeat(member, pattern="t.*")
        else:
            harness.heartbeat(member, owned={"t": [0, 1, 2, 3], "u": [0, 1]} if random.randrange(2) else {})
            if harness.member(member).position.epoch > 0:
                request = ConsumerGroupHeartbeatRequest("g", member, harness.member(member).position.epoch)
                found = heartbeat.prepare_heartbeat(harness.core.state, request, CLIENT)
                if found is not None:
                    made[member] = found
        for name, steady in made.items():
            if (
                isinstance(group := harness.core.state.groups.get("g"), type(None))
                or name not in harness.consumers().members
            ):
                assert not steady.heartbeat(harness.now.mono_ms)
                assert group is None or name not in harness.consumers().members
            else:
                took[beats(steady, harness, name)] += 1


def test_a_cached_heartbeat_is_not_accepted_if_the_session_got_shorter() -> None:
    harness = ConsumerGroupHarness(group_consumer_session_timeout_ms=5_000)
    harness.first_heartbeat("A", "t")
    harness.notify(GroupConfigured("g", OwnConfig(session_timeout_ms=1_000)))
    assert not beats(prepare(harness, "A"), harness, "A")  # the deadline is later in the queue
    harness.heartbeat("A")
    assert beats(prepare(harness, "A"), harness, "A")
    harness.advance(1_000)
    assert not harness.consumers().members


def test_a_heartbeat_with_changes_or_of_another_client_is_not_cached() -> None:
    harness = ConsumerGroupHarness()
    core = harness.core
    assert heartbeat.prepare_heartbeat(core.state, ConsumerGroupHeartbeatRequest("g", "A", 1), CLIENT) is None
    harness.first_heartbeat("A", "t", instance="i")
    assert prepare(harness, "A", instance_id="i").heartbeat(harness.now.mono_ms)
    for said in (
        {"member_id": "B"},
        {"member_epoch": 1},
        {"member_epoch": 0},
        {"instance_id": "j"},
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 1},
        {"subscribed_topic_names": ["t"]},
        {"subscribed_topic_regex": ""},
        {"server_assignor": "range"},
    ):
        request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "A", "member_epoch": 2, **said})
        assert heartbeat.prepare_heartbeat(core.state, request, CLIENT) is None, said
    request = ConsumerGroupHeartbeatRequest("g", "A", 2)
    assert heartbeat.prepare_heartbeat(core.state, request, Client("c", "/10.0.0.2")) is None
    assert heartbeat.prepare_heartbeat(core.state, request, Client("d", "/10.0.0.1")) is None
