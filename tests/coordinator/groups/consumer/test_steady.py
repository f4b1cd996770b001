"""Steady heartbeats, prepared: they are taken only where the usual way would say and change just the same."""

from __future__ import annotations

from collections import Counter
from random import Random

from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.common.settings import GroupConfigured, IntervalConfigured, OwnConfig
from muster.coordinator.groups.consumer.heartbeat import SteadyMember
from muster.coordinator.state_machine.interface import Client
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.coordinator.groups.consumer.harness import Hall, topics

CLIENT = Client("c", "/10.0.0.1")


def prepare(hall: Hall, member: str, epoch: int | None = None, client: Client = CLIENT, **said: object) -> SteadyMember:
    epoch = hall.member(member).position.epoch if epoch is None else epoch
    request = ConsumerGroupHeartbeatRequest("g", member, epoch, **said)  # type: ignore[arg-type]  # fields of it
    found = hall.core.prepare_consumer_heartbeat(request, client)
    assert found is not None
    return found


def beats(steady: SteadyMember, hall: Hall, member: str) -> bool:
    """Take it; when it was taken, the usual way does the same."""
    before = hall.member(member)
    if not steady.heartbeat(hall.now.mono_ms):
        return False
    due_ms = before.due_ms
    hall.written()
    assert hall.cast(member, steady.response.member_epoch) == steady.response
    assert hall.written() == []
    assert hall.member(member) is before
    assert before.due_ms == due_ms
    return True


def test_what_is_taken_is_what_the_usual_way_would_say() -> None:
    took = Counter[bool]()
    for seed in range(40):
        play(Random(seed), took)
    assert took[True] > 400
    assert took[False] > 400


def play(random: Random, took: Counter[bool]) -> None:
    """A history of a few members, whose heartbeats were prepared at any time."""
    hall = Hall(group_consumer_session_timeout_ms=5_000)
    made: dict[str, SteadyMember] = {}
    for _ in range(120):
        member = random.choice("ABCD")
        group = hall.core.state.groups.get("g")
        there = group is not None and member in hall.consumers().members
        what = random.choice(["beat"] * 6 + ["join", "leave", "pass", "topics", "config", "interval", "say", "pattern"])
        if what == "join":
            hall.enter(member, *random.choice([["t"], ["t", "u"]]), instance=random.choice([None, f"i{member}"]))
        elif what == "pass":
            hall.advance(random.choice([10, 1_000, 4_999]))
        elif what == "topics":
            hall.told(TopicsChanged(topics(t=random.randint(1, 4), u=2)))
        elif what == "config":
            own = random.choice([None, OwnConfig(random.choice([None, 4_000, 6_000]), random.choice([None, 7_000]))])
            hall.told(GroupConfigured("g", own))
        elif what == "interval":
            hall.told(IntervalConfigured(random.choice([0, 500])))
        elif not there:
            continue
        elif what == "leave":
            hall.cast(member, random.choice([-1, -2]), instance=hall.member(member).description.instance_id)
        elif what == "say":
            hall.cast(member, names=random.choice([["t"], ["u"]]))
        elif what == "pattern" and not random.randrange(5):
            hall.cast(member, pattern="t.*")
        else:
            hall.cast(member, owned={"t": [0, 1, 2, 3], "u": [0, 1]} if random.randrange(2) else {})
            if hall.member(member).position.epoch > 0:
                request = ConsumerGroupHeartbeatRequest("g", member, hall.member(member).position.epoch)
                found = hall.core.prepare_consumer_heartbeat(request, CLIENT)
                if found is not None:
                    made[member] = found
        for name, steady in made.items():
            if isinstance(group := hall.core.state.groups.get("g"), type(None)) or name not in hall.consumers().members:
                assert not steady.heartbeat(hall.now.mono_ms)
                assert group is None or name not in hall.consumers().members
            else:
                took[beats(steady, hall, name)] += 1


def test_a_shorter_session_that_must_ring_earlier_goes_the_usual_way() -> None:
    hall = Hall(group_consumer_session_timeout_ms=5_000)
    hall.enter("A", "t")
    hall.told(GroupConfigured("g", OwnConfig(session_timeout_ms=1_000)))
    assert not beats(prepare(hall, "A"), hall, "A")  # the deadline stands later in the queue
    hall.cast("A")
    assert beats(prepare(hall, "A"), hall, "A")
    hall.advance(1_000)
    assert not hall.consumers().members


def test_who_says_something_or_is_somebody_else_is_not_prepared() -> None:
    hall = Hall()
    core = hall.core
    assert core.prepare_consumer_heartbeat(ConsumerGroupHeartbeatRequest("g", "A", 1), CLIENT) is None
    hall.enter("A", "t", instance="i")
    assert prepare(hall, "A", instance_id="i").heartbeat(hall.now.mono_ms)
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
        request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "A", "member_epoch": 2, **said})  # type: ignore[arg-type]  # fields of it
        assert core.prepare_consumer_heartbeat(request, CLIENT) is None, said
    request = ConsumerGroupHeartbeatRequest("g", "A", 2)
    assert core.prepare_consumer_heartbeat(request, Client("c", "/10.0.0.2")) is None
    assert core.prepare_consumer_heartbeat(request, Client("d", "/10.0.0.1")) is None
