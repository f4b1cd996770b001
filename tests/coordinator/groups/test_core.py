from __future__ import annotations

import pytest

from muster.coordinator.groups import core
from muster.coordinator.groups.classic.group import EMPTY, PREPARING, STABLE
from muster.coordinator.groups.common import events
from muster.coordinator.state_machine.interface import Client, Command, Now
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest
from tests.coordinator.groups.harness import GroupHarness


def test_a_request_that_the_core_does_not_handle_raises_type_error() -> None:
    harness = GroupHarness()
    with pytest.raises(TypeError, match="ApiVersionsRequest"):
        harness.core.handle(Command(ApiVersionsRequest(), 1, Client("c", "/h")), harness.now)


def test_the_group_with_the_empty_id_may_have_offsets_but_no_members() -> None:
    harness = GroupHarness()
    harness.commit(group="")
    assert list(harness.core.state.groups) == [""]
    answers = [harness.join(group=""), harness.sync("m", group="", generation=1)]
    answers += [harness.send(HeartbeatRequest("", 1, "m")), harness.send(LeaveGroupRequest(""))]
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_GROUP_ID] * 4


def test_an_idle_core_only_has_the_deadline_of_the_retention_check() -> None:
    harness = GroupHarness(offsets_retention_check_interval_ms=1_000)
    assert harness.core.next_deadline_ms() == harness.now.mono_ms + 1_000
    output = harness.core.advance(harness.now)
    assert (list(output.replies), list(output.records), list(output.events)) == ([], [], [])


def test_a_heartbeat_adds_no_deadline_to_the_heap() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    before = len(harness.core.state.deadlines)
    for _ in range(100):
        harness.advance(10)
        harness.beat(a)
        harness.beat(b)
    assert len(harness.core.state.deadlines) == before


def test_many_deadlines_are_handled_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # a large group with dead machines must not delay all others
    monkeypatch.setattr(core, "MAX_DEADLINES_AT_ONCE", 5)
    harness = GroupHarness()
    harness.stable(count=11)
    due_ms = harness.now.mono_ms + 10_000
    now = Now(due_ms, harness.now.wall_ms + 10_000)
    left = []
    while (next_ms := harness.core.next_deadline_ms()) is not None and next_ms <= due_ms:
        before = len(harness.group().members)
        harness.collect(harness.core.advance(now))
        left.append(before - len(harness.group().members))
    assert left == [5, 5, 1]
    assert harness.group().state == EMPTY


def reload(harness: GroupHarness, **settings: int) -> GroupHarness:
    again = GroupHarness(**settings)
    again.asked = 1_000
    for record in harness.records:
        again.core.replay([(record.key, record.value)], again.now)
    again.collect(again.core.loaded(again.now))
    return again


def test_the_core_counts_its_groups() -> None:
    harness = GroupHarness()
    harness.join(group="g")
    harness.join(group="h")
    assert harness.core.group_count == 2


def test_a_loaded_group_with_members_is_stable_with_fresh_sessions() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.commit(a, 2)
    again = reload(harness)
    assert (again.group().state, again.group().generation, again.group().leader_id) == (STABLE, 2, a)
    assert again.sync(b).assignment == b"1"
    assert again.fetch().committed_offset == 5
    again.advance(9_999)
    assert again.beat(a) == again.beat(b) == 0
    again.advance(10_000)
    assert again.group().members == {}


def test_a_load_forgets_a_rebalance_that_was_not_completed() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(a)
    harness.join(b)
    assert harness.group().generation == 3
    again = reload(harness)
    assert (again.group().state, again.group().generation) == (STABLE, 2)
    assert again.beat(a, 3) == 22


def test_after_a_load_a_member_has_only_the_chosen_protocol() -> None:
    harness = GroupHarness()
    _, b = harness.stable(protocols=(("range", b"r"), ("roundrobin", b"rr")))
    again = reload(harness)
    assert again.group().members[b].protocols == (("range", b"r"),)
    assert again.join(b, protocols=(("range", b"r"), ("roundrobin", b"rr"))) is None
    assert again.group().state == PREPARING


def test_a_group_above_the_limit_rebalances_when_it_is_loaded() -> None:
    harness = GroupHarness()
    harness.stable(count=3)
    again = reload(harness, group_max_size=2)
    assert again.group().state == PREPARING
    assert again.events[0].facts["cause"] == events.OVER_CAPACITY
    assert reload(harness, group_max_size=3).group().state == STABLE


def test_subscriptions_are_known_after_a_load() -> None:
    harness = GroupHarness()
    harness.stable(protocols=(("range", b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0"),))
    again = reload(harness)
    assert again.group().subscribes_to("t")
    assert not again.group().subscribes_to("u")
