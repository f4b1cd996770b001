"""Members that subscribe to thousands of names: the cost of a heartbeat grows with its member's names, not with the
names of all members together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.epoch_history import MAX_TOPICS
from muster.coordinator.groups.common.image import TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer import computed_targets, describe, target
from muster.coordinator.groups.consumer import topics as topics_module
from muster.coordinator.groups.consumer.checks import MAX_NAMES, ascending_names
from muster.coordinator.groups.consumer.commands import AssignmentWanted, TopicsFound, TopicsWanted
from muster.coordinator.groups.consumer.replay import MAX_SHARED_NAMES
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, topics

NAMES = 5_000
MEMBERS = 12


class Name(str):
    """A topic name that counts its look-ups, in any table."""

    __slots__ = ()
    looked_up = 0

    def __hash__(self) -> int:
        Name.looked_up += 1
        return str.__hash__(self)


def alike(_: int) -> list[str]:
    return [Name(f"t{number:05}") for number in range(NAMES)]


def different(member: int) -> list[str]:
    return [Name(f"m{member:02}-{number:05}") for number in range(NAMES)]


def none(_: int) -> list[str]:
    return []


def harness_with(existing_names: Sequence[str] = ()) -> ConsumerGroupHarness:
    harness = ConsumerGroupHarness(helped=True)
    harness.notify(TopicsChanged(topics(**dict.fromkeys(map(str, existing_names), 1))))
    return harness


def look_ups(act: Callable[[], object]) -> int:
    Name.looked_up = 0
    act()
    return Name.looked_up


@pytest.mark.parametrize("names", [alike, different])
@pytest.mark.parametrize("there", [none, alike, different])
def test_a_join_costs_only_the_names_of_its_own_member(
    names: Callable[[int], list[str]], there: Callable[[int], list[str]]
) -> None:
    """With 60 members of 20,000 names each, a join once took 400 ms."""
    harness = harness_with(there(0))
    counts = [
        look_ups(lambda member=member: harness.first_heartbeat(f"A{member}", *names(member)))
        for member in range(MEMBERS)
    ]
    assert max(counts) < 30 * NAMES
    assert counts[-1] < 2 * min(counts[1:])
    assert sum(counts[1:]) < MEMBERS * 16 * NAMES
    harness.notify(TopicsChanged(topics(another=1)))
    assert look_ups(lambda: harness.heartbeat("A3", owned={})) < 30 * NAMES
    assert look_ups(lambda: harness.heartbeat("A3", -1)) < 30 * NAMES
    assert isinstance(harness.offloaded[0], AssignmentWanted)


def test_names_that_all_members_share_are_looked_up_once_for_a_target() -> None:
    harness = harness_with(alike(0))
    for member in range(MEMBERS):
        harness.first_heartbeat(f"A{member}", *alike(member))
    wanted = target.wanted_assignment(step_of(harness), harness.consumers())
    assert len({id(one.topics) for one in wanted.members}) == 1
    assert look_ups(lambda: SERVER_ASSIGNORS["uniform"].assign(wanted.members, wanted.topics)) < 20 * NAMES


def step_of(harness: ConsumerGroupHarness) -> Step:
    return Step(harness.core.state, harness.now, harness.max_bytes)


def test_topic_ids_are_cached_for_a_bounded_number_of_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_module, "FEW_NAMES", 2)
    monkeypatch.setattr(topics_module, "SUBSCRIPTIONS_KEPT", 2)
    harness = harness_with(["a", "b", "c", "d"])
    for member, names in {"A": "abc", "B": "bcd", "C": "acd", "D": "ab"}.items():
        harness.first_heartbeat(member, *names, "none")
    group, image = harness.consumers(), harness.core.state.image
    found = topics_module.existing_topics(group, image)
    assert topics_module.existing_topics(group, image) is found
    assert (found.names, found.partitions) == (("a", "b", "c", "d"), 4)
    for names in ("abc", "bcd", "acd", "abc"):
        said = next(one.description for one in group.members.values() if one.description.topics == (*names, "none"))
        ids = found.ids_of(group, said)
        assert ids == {image.by_name[name].topic_id for name in names}
        assert found.ids_of(group, said) is ids


def test_changed_topics_are_looked_up_again() -> None:
    harness = harness_with(["a", "b"])
    harness.first_heartbeat("A", "a")
    group, image = harness.consumers(), harness.core.state.image
    before = topics_module.existing_topics(group, image)
    harness.first_heartbeat("B", "a")
    assert topics_module.existing_topics(group, image) is before
    harness.first_heartbeat("C", "b", "z")
    assert topics_module.existing_topics(group, image).names == ("a", "b")
    harness.heartbeat("C", -1)
    assert topics_module.existing_topics(group, image).names == ("a",)
    harness.notify(TopicsChanged(topics(b=1)))
    assert topics_module.existing_topics(group, harness.core.state.image).names == ()


def test_members_with_many_equal_names_share_one_list() -> None:
    harness = harness_with()
    many = [f"t{number:05}" for number in range(MAX_SHARED_NAMES + 1)]
    harness.first_heartbeat("A", *many)
    harness.first_heartbeat("B", *[name[:1] + name[1:] for name in many])
    assert harness.member("A").description.topics is harness.member("B").description.topics
    group = harness.consumers()
    assert (group.named, len(group.names), len(group.subscriptions)) == (len(many), len(many), 1)
    harness.heartbeat("B", names=["x", *many[1:]], timeout=5_000)
    assert (group.named, len(group.names), len(group.subscriptions)) == (2 * len(many), len(many) + 1, 2)
    for member in "AB":
        harness.heartbeat(member, -1)
    assert (group.named, group.names, group.subscriptions) == (0, {}, {})


def test_a_pattern_that_resolves_to_the_subscribed_names_changes_nothing() -> None:
    harness = harness_with(["t", "u"])
    harness.first_heartbeat("A", pattern="t.*")
    wanted = next(one for one in harness.offloaded if isinstance(one, TopicsWanted))
    harness.notify(TopicsFound(wanted, {"t.*": ["t"]}))
    group = harness.consumers()
    version = group.names_version
    harness.notify(TopicsFound(wanted, {"t.*": ["t"]}))
    assert (group.names_version, group.names) == (version, {"t": 1})
    harness.notify(TopicsFound(wanted, {"t.*": ["t", "u"]}))
    assert (group.names_version > version, group.names) == (True, {"t": 1, "u": 1})


def test_the_length_prefix_of_long_names_is_counted_in_the_record_size() -> None:
    harness = ConsumerGroupHarness()
    harness.max_bytes = 3 * (20 * 130 + 10)
    assert harness.first_heartbeat("A", *[f"{number:03}{'n' * 126}" for number in range(20)]).error_code
    harness.max_bytes = 3 * (20 * 131 + 140)
    assert not harness.first_heartbeat("A", *[f"{number:03}{'n' * 126}" for number in range(20)]).error_code


def test_members_with_very_many_names_are_answered_one_in_each_step() -> None:
    assert computed_targets.TOPICS_AT_ONCE // (MAX_NAMES // computed_targets.NAMES_AS_A_TOPIC) == 1


def test_sorting_names_stops_one_above_the_limit() -> None:
    assert ascending_names(["b", "a", "b"]) == ["a", "b"]
    assert ascending_names([]) == []
    many = [f"t{number:05}" for number in range(MAX_NAMES + 50)]
    assert len(ascending_names([*many, *many])) == MAX_NAMES + 1
    assert len(ascending_names(many[:MAX_NAMES] * 3)) == MAX_NAMES


def test_a_large_group_is_described_by_snapshots_that_become_rows_in_steps() -> None:
    harness = ConsumerGroupHarness()
    image = {f"t{number:05}": TopicImage(f"t{number:05}", number.to_bytes(16), 1) for number in range(1_200)}
    harness.notify(TopicsChanged(TopicsImage(image, 900)))
    harness.first_heartbeat("A", *image)
    harness.first_heartbeat("B", "t00001")
    harness.heartbeat("A", owned={})
    request = ConsumerGroupDescribeRequest(["g", "no"])
    answers: list[Any] = []
    for kind in (describe.Command, describe.DescribeCommand):
        step = step_of(harness)
        describe.handle(step, kind(request, answers.append, Client("c", "/h")), request)
        answers.append(step.replies[0][1])
    whole, snapshots = (answer.groups[0].members for answer in answers)
    assert answers[1].groups[1].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for row, one in zip(whole, snapshots, strict=True):
        steps = describe.member_row(one)
        counted = 0
        while True:
            try:
                next(steps)
                counted += 1
            except StopIteration as end:
                made = end.value
                break
        assert made == row
        topics_of_it = len(one.position.assigned) + len(one.target)
        assert counted >= topics_of_it // describe.TOPICS_AT_ONCE
        assert one.size() > 7 * len(one.description.topics) + 4 * topics_of_it


def test_a_member_is_described_with_partitions_that_it_still_has_to_revoke() -> None:
    harness = ConsumerGroupHarness()
    harness.notify(TopicsChanged(topics(t=4, u=1)))
    harness.first_heartbeat("A", "t", "u")
    harness.heartbeat("A", owned={})
    harness.first_heartbeat("B", "t")
    harness.heartbeat("A", owned={"t": range(4), "u": [0]})
    assert harness.member("A").position.revoking
    request = ConsumerGroupDescribeRequest(["g"])
    step = step_of(harness)
    describe.handle(step, describe.Command(request, list, Client("c", "/h")), request)
    row = step.replies[0][1].groups[0].members[0]
    assert {one.topic_name: sorted(one.partitions) for one in row.assignment.topic_partitions} == {
        "t": [0, 1, 2, 3], "u": [0]
    }  # fmt: skip


def test_events_list_changed_topics_up_to_a_limit() -> None:
    names = [f"t{number:02}" for number in range(30)]
    harness = harness_with(names)
    harness.first_heartbeat("A", *names)
    harness.events.clear()
    harness.notify(TopicsChanged(topics(**dict.fromkeys(names, 2))))
    harness.heartbeat("A", owned={})
    (changed_topics,) = [one.facts["topics"] for one in harness.events if one.kind == events.EPOCH_BUMPED]
    assert isinstance(changed_topics, list)
    assert len(changed_topics) == MAX_TOPICS


def test_a_pattern_that_resolves_to_many_topics_touches_each_a_few_times() -> None:
    names = [f"t{number:05}" for number in range(NAMES)]
    harness = harness_with(names)
    harness.first_heartbeat("A", pattern="t.*")
    wanted = next(one for one in harness.offloaded if isinstance(one, TopicsWanted))
    found = [Name(name) for name in names]
    assert look_ups(lambda: harness.notify(TopicsFound(wanted, {"t.*": found}))) < 8 * NAMES
    assert look_ups(lambda: harness.notify(TopicsFound(wanted, {"t.*": found}))) < 2 * NAMES
    group = harness.consumers()
    assert (len(group.names), group.resolved["t.*"].topics) == (NAMES, tuple(names))
    assert harness.replayed(harness.records).names == group.names
