"""Each kind of episode, found in a hand-made group; and rules that hold for any group."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.pipeline.episodes.find import episodes, within
from muster.pipeline.episodes.model import EXPIRED, KINDS, LEFT, Who
from muster.pipeline.episodes.verdict import describe
from tests.pipeline.episodes.timeline import HOUR_S, Group, ms

ABC = ("a", "b", "c")


def test_the_first_members_are_a_formation_also_when_some_come_a_little_later() -> None:
    (found,) = Group("a").comes(12, "b").comes(25, "c").episodes()
    assert (found.kind, found.members, found.rebalances, found.from_ms) == ("first_formation", ABC, 3, ms(0))


def test_members_from_before_the_log_are_no_formation() -> None:
    group = Group(*ABC)
    group.rebalances.clear()
    assert group.episodes() == []


def test_members_in_the_first_record_of_a_compacted_log_did_not_join_then() -> None:
    group = Group(*ABC)
    unknown = {"before_generation": None, "members_before": None, "cause": None, "trigger": None, "confidence": 0.2}
    group.rebalances[0] = group.rebalances[0]._replace(**unknown)
    assert [one.kind for one in group.episodes()] == ["other"]


def test_a_group_without_members_at_the_begin_of_a_log_had_stopped() -> None:
    group = Group("a").leaves(10, "a").comes(30, *ABC)
    empty = {"before_generation": None, "members_before": None, "cause": None, "trigger": None, "confidence": 0.2}
    group.rebalances = [group.rebalances[1]._replace(**empty), group.rebalances[2]]
    del group.stays[0]
    midst, found = group.episodes()
    assert (midst.kind, midst.is_midst) == ("other", True)
    assert (found.kind, found.members, found.size, found.back_ms, found.died) == ("whole_stop", (), 3, 18_000, False)
    assert describe(found, ms(60)).startswith("nobody was in the group until 3 members joined: 1 rebalance")
    again = group.rebalances[0]._replace(
        before_generation=2, generation=3, members_before=0, cause="member_left", end_ms=ms(20)
    )
    group.rebalances.insert(1, again)  # the epoch of a KIP-848 group
    assert [(one.kind, one.is_midst) for one in group.episodes()] == [("other", True), ("whole_stop", False)]
    group.stays.append(group.stays[0]._replace(who=Who("older", None, None, None), start_ms=ms(25)))
    assert [one.kind for one in group.episodes()] == ["other", "scale_out"]  # the log lacks the records of a member
    del group.stays[-1], group.rebalances[1]
    group.is_silent_with_others(-60, 5)
    assert [one.kind for one in group.episodes()] == ["other", "coordinator_or_network_trouble"]


def test_a_member_that_died_before_a_stop_is_not_part_of_it() -> None:
    group = Group(*ABC).dies(1_000, "a").leaves(1_045, "b").leaves(1_047, "c")
    kinds = {one.kind: one.members for one in group.episodes()[1:]}
    assert kinds == {"member_died": ("a",), "whole_stop": ("b", "c")}
    mixed = Group(*ABC).leaves(1_000, "a").leaves(1_040, "b").dies(1_085, "c").comes(1_090, "d")
    assert "whole_stop" not in {one.kind for one in mixed.episodes()}


def test_a_member_silent_during_a_coordinator_outage_was_lost_by_it() -> None:
    group = Group(*ABC).is_lost_with_others(1_000)
    group.leaves(1_060, "a", silent_ms=62_000, session_ms=20_000).comes(1_061, "d")
    assert [one.kind for one in group.episodes()][1:2] == ["coordinator_or_network_trouble"]


def test_a_rolling_restart_is_one_episode() -> None:
    group = Group(*ABC).restarts(1_000, "a").restarts(1_060, "b").restarts(1_120, "c")
    found = group.episodes()[1]
    assert (found.kind, found.members, found.rebalances) == ("rolling_restart", ABC, 6)
    assert (found.from_ms, found.until_ms, found.cost_ms) == (ms(1_000), ms(1_142), 6 * 12_000)
    assert (found.back_ms, found.partitions, found.static, found.died) == (20_000, 6, False, False)


def test_members_with_equal_names_and_hosts_are_distinguished_by_order() -> None:
    group = Group("rdkafka#1", "rdkafka#2", "rdkafka#3", host="/127.0.0.1")
    group.restarts(1_000, "rdkafka#1").restarts(1_060, "rdkafka#2").restarts(1_120, "rdkafka#3")
    found = group.episodes()[1]
    assert (found.kind, found.members, found.size) == ("rolling_restart", ("rdkafka",), 3)


def test_a_rolling_restart_of_static_members_has_no_rebalance() -> None:
    group = Group()
    group.comes(0, *ABC, instance=True)
    for at_s, name in enumerate(ABC):
        group.is_replaced(1_000 + 60 * at_s, name)
    assert group.kinds() == ["rolling_restart"]
    found = group.episodes()[1]
    assert (found.rebalances, found.static, found.members) == (0, True, ABC)


def test_a_rolling_restart_may_stop_a_member_before_the_previous_one_is_back() -> None:
    group = Group(*ABC).leaves(1_000, "a").leaves(1_010, "b").comes(1_020, "a").leaves(1_025, "c")
    assert group.comes(1_030, "b").comes(1_045, "c").kinds() == ["rolling_restart"]


def test_a_deploy_whose_new_members_join_first_is_overlapped() -> None:
    group = Group(*ABC).comes(1_000, "d").leaves(1_012, "a").comes(1_020, "e").leaves(1_033, "b").comes(1_040, "f")
    assert group.leaves(1_051, "c").kinds() == ["overlapped_deploy"]


def test_a_deploy_that_starts_all_new_members_first_is_overlapped() -> None:
    group = Group(*ABC).comes(1_000, "d", "e", "f").leaves(1_030, "a").leaves(1_035, "b").leaves(1_040, "c")
    assert group.kinds() == ["overlapped_deploy"]


@pytest.mark.parametrize(
    ("first", "cause", "kind"),
    [
        ("ad", "member_left", "rolling_restart"),  # each new member starts when an old one has left
        ("ad", "member_joined", "overlapped_deploy"),
        ("abde", "member_left", "overlapped_deploy"),  # both new members were there when the first old one left
    ],
)
def test_members_of_other_names_in_one_rebalance_overlap_if_they_came_first(first: str, cause: str, kind: str) -> None:
    half = len(first) // 2
    group = Group(*ABC).exchanges(1_000, first[:half], first[half:], cause)
    assert group.exchanges(1_020, "c", "f", cause).kinds() == [kind]


def test_added_and_removed_members_are_scale_out_and_scale_in() -> None:
    group = Group("a", "b").comes(1_000, "c").comes(1_060, "d", "e").leaves(5_000, "c").leaves(5_030, "d", "e")
    out, into = group.episodes()[1:]
    assert (out.kind, out.members, out.rebalances) == ("scale_out", ("c", "d", "e"), 2)
    assert (into.kind, into.members, into.rebalances) == ("scale_in", ("c", "d", "e"), 2)


def test_a_member_that_leaves_and_joins_three_times_crash_loops() -> None:
    group = Group(*ABC)
    for number in range(19):
        group.restarts(1_000 + 120 * number, "b", how=EXPIRED if number % 2 else "left")
    found = group.episodes()[1]
    assert (found.kind, found.members, found.rebalances) == ("crash_loop", ("b",), 38)


def test_a_crash_loop_of_the_only_member_is_no_stop() -> None:
    group = Group("a")
    for number in range(4):
        group.restarts(1_000 + 120 * number, "a", how=EXPIRED if number == 2 else "left")
    assert group.kinds() == ["crash_loop"]


def test_a_repeated_job_is_no_crash_loop() -> None:
    """The only member leaves in order each time: such a crash loop looks like a job that runs now and then."""
    group = Group("job")
    for number in range(5):
        group.restarts(10 + 25 * number, "job", 16)
    (found,) = group.episodes()[1:]
    assert (found.kind, found.times, found.any_died, found.rebalances) == ("restart", 5, False, 10)


def test_restarts_before_a_stop_do_not_belong_to_it() -> None:
    """Members restarted less than a minute before all members were stopped."""
    group = Group(*ABC).restarts(1_000, "a", 2).restarts(1_020, "b", 2).restarts(1_040, "c", 2)
    assert group.leaves(1_060, *ABC).kinds() == ["rolling_restart", "whole_stop"]
    stop = group.episodes()[-1]
    assert (stop.members, stop.rebalances, stop.from_ms) == (ABC, 1, ms(1_060))
    slow = {"silent_ms": 15_000, "patience_ms": 10_000, "session_ms": 6_000}
    poller = Group("a", "b")
    for number in range(4):
        poller.restarts(1_000 + 30 * number, "b", 7, **slow)
    assert poller.leaves(1_120, "a", "b").kinds() == ["slow_poller", "whole_stop"]


def test_members_that_restart_at_once_are_no_rolling_restart() -> None:
    group = Group(*ABC, "d").leaves(1_000, "b", "c", "d").comes(1_022, "b", "c", "d")
    (found,) = group.episodes()[1:]
    assert (found.kind, found.members, found.rebalances, found.times) == ("restart", ("b", "c", "d"), 2, 1)


def test_a_deploy_just_before_a_stop_does_not_belong_to_it() -> None:
    """The new members came before the old ones left; then all were stopped."""
    group = Group(*ABC).comes(1_000, "d", "e", "f").leaves(1_009, *ABC).leaves(1_027, "d", "e", "f")
    assert group.kinds() == ["overlapped_deploy", "whole_stop"]
    assert (group.episodes()[-1].members, group.episodes()[-1].rebalances) == (("d", "e", "f"), 1)


@pytest.mark.parametrize("again", [True, False])
def test_an_autoscaler_scales_out_and_in(again: bool) -> None:
    """The same processes return, or new ones; then all stop."""
    group = Group("a", "b")
    for number in range(4):
        some = ("c", "d") if again else (f"c{number}", f"d{number}")
        group.comes(1_000 + 34 * number, *some).leaves(1_018 + 34 * number, *some)
    group.leaves(1_240, "a", "b")
    assert group.kinds() == ["scale_out", "scale_in"] * 4 + ["whole_stop"]
    assert group.episodes()[-1].members == ("a", "b")


def test_members_that_repeatedly_die_together_are_no_autoscaler() -> None:
    group = Group(*ABC)
    for number in range(4):
        group.dies(1_000 + 60 * number, "b", "c").comes(1_020 + 60 * number, "b", "c")
    assert set(group.kinds()) == {"crash_loop"}


def test_two_members_that_leave_in_turn_are_flapping() -> None:
    group = Group(*ABC)
    for number in range(6):
        group.restarts(1_000 + 100 * number, "ab"[number % 2])
    found = group.episodes()[1]
    assert (found.kind, found.members, found.rebalances) == ("flapping", ("a", "b"), 12)


def test_two_members_that_leave_in_turn_every_few_seconds_are_flapping() -> None:
    group = Group(*ABC)
    for number in range(8):
        group.restarts(1_000 + 9 * number, "bc"[number % 2], 4)
    assert group.kinds() == ["flapping"]


def test_two_processes_with_one_instance_id_are_flapping() -> None:
    group = Group()
    group.comes(0, "i", instance=True, host="/10.0.0.1")
    for number in range(5):
        group.is_replaced(1_000 + 30 * number, "i", host=f"/10.0.0.{2 - number % 2}")
    found = group.episodes()[1]
    assert (found.kind, found.members) == ("flapping", ("i (10.0.0.1)", "i (10.0.0.2)"))


def test_three_rolling_restarts_in_a_row_are_no_loops() -> None:
    group = Group(*ABC)
    for turn in range(3):
        for number, name in enumerate(ABC):
            group.restarts(1_000 + 600 * turn + 60 * number, name)
    assert group.kinds() == ["rolling_restart"] * 3


def test_members_lost_together_with_other_groups_members_are_coordinator_trouble() -> None:
    group = Group(*ABC).dies(1_000, "a", "b", session_ms=10_000).comes(1_030, "a", "b").is_lost_with_others(990)
    found = group.episodes()[1]
    assert (found.kind, found.members, found.died) == ("coordinator_or_network_trouble", ("a", "b"), True)
    alone = Group(*ABC).dies(1_000, "a", session_ms=10_000).comes(1_030, "a").is_lost_with_others(900)
    assert alone.kinds() == ["member_died"]


def test_a_member_silent_for_a_session_in_an_outage_was_lost_by_it() -> None:
    def kinds(silent_ms: int) -> list[str]:
        group = Group(*ABC).leaves(1_000, "a", silent_ms=silent_ms, session_ms=10_000)
        return group.is_lost_with_others(1_000 - silent_ms / 1000).comes(1_100, "a").kinds()

    assert kinds(12_000) == ["coordinator_or_network_trouble"]
    assert kinds(9_000) == kinds(50_000) == ["restart"]  # it had just sent a request; it had nothing to commit for long


def test_sessions_that_end_because_of_a_silence_are_no_deaths_and_no_rolling_restart() -> None:
    group = Group(*ABC).is_silent_with_others(1_000, 1_120)
    lost = {"session_ms": 45_000, "silent_ms": 132_000}
    group.dies(1_122, "a", **lost).comes(1_124, "a").leaves(1_130, "b", **lost).comes(1_131, "b")
    group.dies(1_165, "c", session_ms=45_000, silent_ms=168_000).comes(1_170, "c")
    assert group.kinds() == ["coordinator_or_network_trouble"]
    found = group.episodes()[1]
    assert (found.members, found.back_ms) == (ABC, 5_000)


@pytest.mark.parametrize(("at_s", "kinds"), [(1_121, ["coordinator_or_network_trouble"]), (1_130, ["member_died"])])
def test_a_single_member_that_is_lost_after_a_silence_is_not_lost_by_it(at_s: int, kinds: list[str]) -> None:
    """The coordinator begins all sessions again, and the other members outlive the silence."""
    group = Group(*ABC).is_silent_with_others(1_000, 1_120)
    group.dies(at_s, "a", session_ms=10_000, silent_ms=1_000 * (at_s - 1_000))
    assert group.kinds() == kinds


@pytest.mark.parametrize(("how", "kinds"), [(EXPIRED, ["crash_loop"] * 2), (LEFT, ["flapping"])])
def test_two_members_that_die_in_turn_are_in_crash_loops(how: str, kinds: list[str]) -> None:
    group = Group(*ABC)
    for number in range(8):
        group.restarts(1_000 + 40 * number, "ab"[number % 2], how=how)
    assert group.kinds() == kinds


def test_members_that_die_again_and_again_are_no_whole_stop_if_all_are_dead_at_once() -> None:
    group = Group("a", "b")
    for number in range(4):
        group.dies(1_000 + 60 * number, "a", "b").comes(1_020 + 60 * number, "a", "b")
    assert set(group.kinds()) == {"crash_loop"}


def test_a_member_that_ends_when_a_frozen_broker_ends_sessions_did_not_restart() -> None:
    """The broker first answers its commit, which had waited."""
    group = Group(*ABC).is_silent_with_others(1_000, 1_120)
    group.dies(1_120, "a", silent_ms=120_000).leaves(1_120.2, "b", silent_ms=150).comes(1_125, "a", "b")
    assert group.kinds() == ["coordinator_or_network_trouble"]
    group = Group(*ABC).is_silent_with_others(1_000, 1_120).restarts(1_120.2, "b", 5, silent_ms=150)
    assert group.kinds() == ["restart"]
    assert group.episodes()[1].is_unsure  # the broker may have removed it
    assert not Group(*ABC).is_silent_with_others(1_000, 1_120).restarts(1_125, "b", 5).episodes()[1].is_unsure


@pytest.mark.parametrize(("at_s", "kind"), [(1_150, "coordinator_or_network_trouble"), (1_300, "scale_out")])
def test_a_member_that_joins_just_after_a_silence_is_perhaps_back(at_s: int, kind: str) -> None:
    group = Group("d", *ABC).leaves(300, "d").is_silent_with_others(1_000, 1_120).comes(at_s, "d")
    assert group.kinds() == ["scale_in", kind]


def test_a_member_that_was_never_there_is_new_after_a_silence_if_nobody_is_missing() -> None:
    group = Group(*ABC).is_silent_with_others(1_000, 1_120)
    assert group.comes(1_130, "d").kinds() == ["scale_out"]
    group = Group(*ABC).is_silent_with_others(5, 120)  # the group is just forming
    assert group.comes(130, "d").kinds() == ["coordinator_or_network_trouble"]


def test_a_member_that_was_lost_before_a_silence_was_not_lost_by_it() -> None:
    group = Group(*ABC).dies(998, "c", silent_ms=14_000).is_silent_with_others(1_000, 1_120).comes(1_140, "c")
    assert group.kinds() == ["member_died"]


def test_a_group_that_forms_just_after_a_silence_is_new() -> None:
    assert [one.kind for one in Group("a").is_silent_with_others(-100, -10).episodes()] == ["first_formation"]


def test_a_crash_loop_that_begins_after_a_silence_is_found() -> None:
    """Other groups lost members by the silence. The looping member joined after it, and was heard of later."""
    group = Group(*ABC).is_silent_with_others(1_000, 1_120).is_lost_with_others(1_120)
    for at_s in (1_139, 1_160, 1_180):
        group.restarts(at_s, "c", 5, how=EXPIRED, session_ms=6_000, silent_ms=6_000)
    assert group.kinds() == ["crash_loop"]


@pytest.mark.parametrize(("before", "after"), [((700, 800, 900, 990), (1_240, 1_330)), ((900,), (1_240,))])
def test_a_crash_loop_across_a_silence_is_still_found(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    group = Group(*ABC).is_silent_with_others(1_000, 1_120)
    dead = {"session_ms": 10_000, "silent_ms": 10_000}
    for at_s in before:
        group.restarts(at_s, "c", how=EXPIRED, **dead)
    group.dies(1_122, "b", session_ms=45_000, silent_ms=125_000)
    group.restarts(1_125, "c", how=EXPIRED, session_ms=10_000, silent_ms=126_000).comes(1_150, "b")
    for at_s in after:
        group.restarts(at_s, "c", how=EXPIRED, **dead)
    found = {one.kind: one.members for one in group.episodes()[1:]}
    assert found == {"crash_loop": ("c",), "coordinator_or_network_trouble": ("b",)}


def test_a_member_whose_session_ended_long_after_a_silence_lived_after_it() -> None:
    """Its last heartbeat was a session before. It committed nothing meanwhile."""
    group = Group(*ABC).is_silent_with_others(1_000, 1_120)
    group.dies(1_130, "a", "b", session_ms=10_000, silent_ms=131_000).comes(1_135, "a", "b")
    group.restarts(1_148, "c", 3, how=EXPIRED, session_ms=10_000, silent_ms=149_000)
    found = [(one.kind, one.members) for one in group.episodes()[1:]]
    assert found == [("coordinator_or_network_trouble", ("a", "b")), ("member_died", ("c",))]


def test_a_member_that_alone_did_not_outlive_a_silence_and_dies_again_and_again_is_in_a_loop() -> None:
    group = Group(*ABC).is_silent_with_others(1_000, 1_120)
    group.restarts(1_130, "c", how=EXPIRED, session_ms=10_000, silent_ms=131_000)
    for at_s in (1_180, 1_220, 1_260):
        group.restarts(at_s, "c", how=EXPIRED, session_ms=10_000, silent_ms=10_000)
    assert [(one.kind, one.times) for one in group.episodes()[1:]] == [("crash_loop", 4)]


def test_a_moment_explains_only_one_loss_of_a_member() -> None:
    group = Group(*ABC).is_lost_with_others(1_000)
    for at_s in (1_000, 1_012, 1_024, 1_060, 1_100):
        group.restarts(at_s, "c", 5, how=EXPIRED, session_ms=6_000, silent_ms=6_000)
    assert [(one.kind, one.times) for one in group.episodes()[1:]] == [("crash_loop", 5)]


def test_a_death_dated_too_early_by_commits_is_dated_by_its_rebalance() -> None:
    group = Group(*ABC).dies(1_000, "a", session_ms=10_000).is_lost_with_others(990)
    group.stays[0] = group.stays[0]._replace(end_ms=ms(600))
    assert group.kinds() == ["coordinator_or_network_trouble"]


def test_a_rebalance_without_a_member_after_an_outage_belongs_to_it() -> None:
    group = Group(*ABC).rebalances_for(1_000, "leader_rejoined", "a").is_lost_with_others(980)
    group.rebalances_for(5_000, "leader_rejoined", "a")
    assert group.kinds() == ["coordinator_or_network_trouble", "other"]


@pytest.mark.parametrize("reason", ["consumer poll timeout has expired.", None])
def test_a_member_removed_repeatedly_for_slow_polls_is_a_slow_poller(reason: str | None) -> None:
    group = Group(*ABC)
    slow = {"reason": reason, "silent_ms": 300_000, "patience_ms": 300_000}
    group.restarts(1_000, "c", 60, **slow).restarts(1_500, "c", 60, **slow)
    found = group.episodes()[1]
    assert (found.kind, found.members, found.rebalances) == ("slow_poller", ("c",), 4)


def test_a_slow_member_with_expired_sessions_is_a_slow_poller() -> None:
    for patience_ms, enough in ((300_000, 2), (60_000, 3)):
        slow = {"silent_ms": patience_ms, "patience_ms": patience_ms, "session_ms": 45_000}
        group = Group(*ABC)
        for number in range(enough - 1):
            group.restarts(1_000 + 200 * number, "c", how=EXPIRED, **slow)
        assert set(group.kinds()) == {"member_died"}
        assert group.restarts(1_000 + 200 * enough, "c", how=EXPIRED, **slow).kinds() == ["slow_poller"]


def test_an_aiokafka_member_that_dies_again_and_again_is_a_crash_loop() -> None:
    dead = {"how": EXPIRED, "silent_ms": 30_000, "patience_ms": 30_000, "session_ms": 30_000}
    group = Group(*ABC)
    for at_s in (1_000, 1_120, 1_240, 1_360):
        group.restarts(at_s, "c", **dead)
    assert group.kinds() == ["crash_loop"]


def test_a_process_that_returns_before_its_old_session_ends_had_died() -> None:
    group = Group("a", "b", "c#1", host="/10.0.0.1")
    dead = {"silent_ms": 60_000, "patience_ms": 60_000, "session_ms": 45_000}
    for number in range(1, 5):
        at_s = 1_000 + 100 * number
        group.comes(at_s, f"c#{number + 1}").dies(at_s + 40, f"c#{number}", **dead)
    assert group.kinds() == ["crash_loop"]


def test_two_processes_that_die_within_seconds_in_one_place_are_two() -> None:
    (found,) = Group(*ABC).dies(1_000, "a").comes(1_002, "d").dies(1_006, "d").comes(1_030, "a").episodes()[1:]
    assert (found.members, found.size) == (("a", "d"), 2)
    assert describe(found, ms(2_000)).startswith("2 members were lost (a and d): 4 rebalances")


def test_other_members_that_join_seconds_later_are_no_restart() -> None:
    group = Group("a", "b", "c", "d").leaves(1_000, "c").leaves(1_005, "d").comes(1_030, "e").comes(1_035, "f")
    assert group.kinds() == ["scale_in", "scale_out"]


def test_less_visible_departures_of_a_slow_poller_belong_to_its_episode() -> None:
    """Before its first long silence, and after the last one, it leaves and returns, too."""
    slow = {"silent_ms": 8_000, "patience_ms": 8_000, "session_ms": 6_000}
    group = Group(*ABC).restarts(1_000, "c", 5, **slow | {"silent_ms": 4_000})
    for at_s in (1_030, 1_060, 1_090):
        group.restarts(at_s, "c", 5, **slow)
    assert group.restarts(1_120, "c", 5, **slow | {"silent_ms": 4_000}).kinds() == ["slow_poller"]
    # its timeouts are short: it also looks as if it had died
    assert group.restarts(1_160, "c", 5, how=EXPIRED, **slow | {"silent_ms": 6_000}).kinds() == ["slow_poller"]


def test_members_of_other_names_that_join_when_the_old_ones_leave_overlap_them() -> None:
    group = Group(*ABC)
    for number, (old, new) in enumerate(zip(ABC, "xyz", strict=True)):
        group.leaves(1_000 + 20 * number, old)
        group.rebalances.pop()
        group._generation -= 1
        group.comes(1_000 + 20 * number, new)
    assert group.kinds() == ["overlapped_deploy"]


def test_a_stop_names_only_the_members_that_stopped() -> None:
    group = Group("a", "b").leaves(1_000, "a", "b").comes(1_030, "c").comes(1_035, "d")
    found = group.episodes()[1]
    assert (found.kind, found.members) == ("whole_stop", ("a", "b"))


def test_a_loop_is_no_trouble_of_the_coordinator_if_other_groups_lose_members_once() -> None:
    group = Group(*ABC).is_lost_with_others(1_090)
    for at_s in (1_000, 1_050, 1_100, 1_150, 1_200):
        group.restarts(at_s, "c", 5, how=EXPIRED, session_ms=10_000, silent_ms=10_000)
    assert group.kinds() == ["crash_loop"]


def test_other_events_of_a_slow_poller_belong_to_its_episode() -> None:
    slow = {"silent_ms": 300_000, "patience_ms": 300_000, "session_ms": 45_000}
    group = Group(*ABC).restarts(1_000, "c", **slow).restarts(1_400, "c").restarts(1_800, "c", **slow)
    assert [(one.kind, one.rebalances) for one in group.episodes()[1:]] == [("slow_poller", 6)]


def test_a_member_that_joins_just_after_another_does_not_replace_it() -> None:
    group = Group("a", "b").comes(1_000, "c").comes(1_004, "d").leaves(1_040, "c").leaves(1_043, "b")
    assert group.kinds() == ["scale_out", "scale_in"]


def test_two_overlapped_deploys_are_no_loops() -> None:
    group = Group(*ABC)
    for at_s, old, new in ((1_000, "abc", "def"), (1_040, "def", "ghi")):
        group.comes(at_s, new[0]).comes(at_s + 1, *new[1:])
        for number, name in enumerate(old):
            group.leaves(at_s + 5 + 2 * number, name)
    assert group.kinds() == ["overlapped_deploy", "overlapped_deploy"]


def test_more_and_fewer_and_more_are_three_episodes() -> None:
    group = Group("a", "b").comes(1_000, "c").comes(1_004, "d").leaves(1_040, "d").leaves(1_043, "b")
    assert group.comes(1_070, "e", "f").kinds() == ["scale_out", "scale_in", "scale_out"]


def test_one_unexplained_slow_poll_is_only_a_restart() -> None:
    slow = {"silent_ms": 300_000, "patience_ms": 300_000}
    assert Group(*ABC).restarts(1_000, "c", **slow).kinds() == ["restart"]
    slow |= {"reason": "the consumer is being closed"}
    assert Group(*ABC).restarts(1_000, "c", **slow).restarts(1_400, "c", **slow).kinds() == ["restart", "restart"]


def test_a_stop_and_return_of_all_members_is_a_whole_stop() -> None:
    group = Group(*ABC).leaves(1_000, "a").leaves(1_005, "b").leaves(1_010, "c").comes(1_300, *ABC)
    found = group.episodes()[1]
    assert (found.kind, found.members, found.rebalances, found.back_ms) == ("whole_stop", ABC, 4, 290_000)


def test_a_group_used_by_another_application_meanwhile_had_stopped() -> None:
    """A group id that was used by another application meanwhile."""
    group = Group("a", "b").leaves(1_000, "a", "b").comes(1_010, "worker").leaves(1_060, "worker").comes(1_070, "a")
    stops = [(one.kind, one.members, one.back_ms) for one in group.episodes()[1:]]
    assert stops == [("whole_stop", ("a", "b"), 10_000), ("whole_stop", ("worker",), 10_000)]


def test_a_long_stop_ends_with_the_next_formation_or_with_the_last_member() -> None:
    group = Group("a", "b").leaves(1_000, "a", "b").comes(24 * HOUR_S, "a").comes(24 * HOUR_S + 10, "b")
    (stop,) = group.episodes()[1:]
    assert (stop.kind, stop.rebalances) == ("whole_stop", 3)
    (stop,) = Group("a", "b").dies(1_000, "a", "b").episodes()[1:]
    assert (stop.kind, stop.died, stop.back_ms) == ("whole_stop", True, None)


def test_deaths_are_reported_by_moment_with_their_replacements() -> None:
    group = Group(*ABC).dies(1_000, "a", "b").comes(1_200, "a").comes(1_260, "z").dies(9_000, "c")
    both, alone = group.episodes()[1:]
    assert (both.kind, both.members, both.back_ms) == ("member_died", ("a", "b"), 260_000)
    assert (alone.kind, alone.members, alone.back_ms) == ("member_died", ("c",), None)


def test_a_second_round_belongs_to_the_first_and_other_causes_are_other_episodes() -> None:
    group = Group(*ABC).comes(1_000, "d").rebalances_for(1_003, "metadata_changed", "a")
    group.rebalances_for(3_000, "partitions_changed").rebalances_for(6_000, "subscription_changed", "b")
    group.rebalances_for(6_060, "subscription_changed", "c").rebalances_for(9_000, "leader_rejoined", "a")
    assert group.kinds() == ["scale_out", "partitions_change", "subscription_change", "other"]
    assert [one.rebalances for one in group.episodes()] == [1, 2, 1, 2, 1]
    assert group.episodes()[3].members == ("b", "c")


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["comes", "leaves", "dies", "restarts", "is_replaced", "rebalances_for"]),
        st.sampled_from("abcde"),
        st.sampled_from([1, 5, 20, 70, 400, 1_000]),
    ),
    max_size=40,
)


def _played(steps: list[tuple[str, str, int]]) -> Group:
    group, now_s = Group("a", "b"), 100.0
    for what, name, later_s in steps:
        now_s += later_s
        there = name in group._alive
        if what == "rebalances_for":
            group.rebalances_for(now_s, "metadata_changed" if there else "leader_rejoined")
        elif what == "comes" and not there:
            group.comes(now_s, name)
        elif what != "comes" and there:
            getattr(group, what)(now_s, name)
            now_s += 20 if what == "restarts" else 0
    return group


@settings(max_examples=150, deadline=None)
@given(_STEPS, st.integers(0, 2**32))
def test_each_rebalance_is_in_one_episode_in_any_order_of_rows(steps: list[tuple[str, str, int]], seed: int) -> None:
    group = _played(steps)
    found = group.episodes()
    numbers = sorted(number for one in found for number in one.numbers)
    assert numbers == list(range(len(group.rebalances)))
    assert all(one.kind in KINDS and 0 <= one.confidence <= 1 and one.from_ms <= one.until_ms for one in found)
    assert [one.rebalances for one in found] == [len(one.numbers) for one in found]
    assert sum(one.cost_ms for one in found) == sum(one.cost_ms for one in group.rebalances)
    stays, rebalances = list(group.stays), list(group.rebalances)
    random.Random(seed).shuffle(stays)
    random.Random(seed + 1).shuffle(rebalances)
    again = [one._replace(numbers=()) for one in episodes(stays, rebalances)]
    assert again == [one._replace(numbers=()) for one in found]


def test_an_episode_that_lasts_over_a_time_has_one_kind_before_and_after() -> None:
    group = Group("a", "b", "c")
    for number, name in enumerate("abc"):
        group.restarts(1_000 + 100 * number, name)
    (deploy,) = (one for one in group.episodes() if one.kind == "rolling_restart")
    before, after = (within(deploy, group.rebalances, *part) for part in ((None, ms(1_050)), (ms(1_050), None)))
    assert (before.kind, after.kind) == ("rolling_restart", "rolling_restart")
    assert (before.rebalances, after.rebalances) == (2, 4)
    assert before.cost_ms + after.cost_ms == deploy.cost_ms


def test_what_was_before_a_silence_has_another_reason() -> None:
    """So has the first record of a log."""
    for start_s, kind in ((1_005, "coordinator_or_network_trouble"), (995, "other")):
        group = Group(*ABC).is_silent_with_others(1_000, 1_120)
        group.rebalances.append(group.rebalances[0]._replace(
            generation=9, before_generation=8, start_ms=ms(start_s), end_ms=ms(start_s), cause=None, trigger=None,
        ))  # fmt: skip
        assert group.kinds() == [kind]
        unknown = {"before_generation": None, "members_before": None}
        group.rebalances[-1] = group.rebalances[-1]._replace(**unknown)
        assert group.kinds() == ["other"]


def test_a_member_whose_name_the_log_does_not_have_is_not_named() -> None:
    group = Group(*ABC).dies(1_000, "a")
    group.stays = [one._replace(who=one.who._replace(client_id=None)) for one in group.stays]
    (_, found) = group.episodes()
    assert (found.members, found.size) == ((), 1)
