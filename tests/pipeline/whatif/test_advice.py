"""The advice for a group, and when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.pipeline.whatif import from_events, from_log
from muster.pipeline.whatif.advice import Advice, advice, unadvised, words
from muster.pipeline.whatif.compare import Comparison, Fidelity, WhatIf, compare
from muster.pipeline.whatif.costs import Figures
from muster.pipeline.whatif.history import EVENTS, EXPIRED, LEFT, LOG, Generation, History, Stay, planned
from muster.pipeline.whatif.settings import DEFAULT_GRID, Setting, parse
from tests.pipeline.whatif.reality import GROUP
from tests.pipeline.whatif.test_compare import restart, running

ACTUAL = Figures(14, 40, 200_000, 100_000, 10_000.0)
HALF = "50 % of the unread time; that is 2 min 30 s of 5 min, partitions added up"


def history(source: str = EVENTS, emptied: int = 0, generations: int = 14) -> History:
    made = [Generation(number, number, "range", None, {}, number) for number in range(generations)]
    return History(GROUP, source, given=None, generations=made, emptied=list(range(emptied)))


def found(*rows: tuple[str, Figures | None], source: str = EVENTS, share: int = 100, held: bool = False) -> Comparison:
    whatif = [WhatIf(parse(text)[0] if text else Setting(), figures) for text, figures in rows]
    return Comparison(Fidelity(source, 100, share, held), ACTUAL, whatif)


def advice_of(comparison: Comparison, **given: object) -> str | None:
    source = comparison.fidelity.source
    got: Advice | None = advice(history(source, **given), comparison)
    return None if got is None else got.sentence


STATIC = "static,session.timeout.ms=60000"
HELPS = Figures(4, 3, 20_000, 130_000, 60_000.0)


def test_advice_is_one_sentence_with_gain_and_price() -> None:
    assert advice_of(found((STATIC, HELPS))) == (
        f"static ids and session.timeout.ms=60000 would have spared 10 of 14 rebalances and {HALF}; a crash would have "
        "stayed unnoticed 50 s longer"
    )


def test_a_gain_within_its_uncertainty_gives_no_advice() -> None:
    slight = replace(ACTUAL, paused_partition_ms=150_000)
    assert advice_of(found(("assignor=sticky", slight))) is not None
    assert advice_of(found(("assignor=sticky", slight), source=LOG)) is None  # the times of a log are estimates
    assert advice_of(found(("assignor=sticky", slight), share=85)) is None  # the replay is not that exact


def test_dead_time_that_a_setting_adds_is_subtracted() -> None:
    dear = Figures(4, 3, 20_000, 400_000, 60_000.0)
    assert advice_of(found((STATIC, dear))) is None


def test_fewer_rebalances_at_the_same_unread_time_are_advised() -> None:
    calm = replace(ACTUAL, rebalances=4)
    assert advice_of(found(("static", calm))) == "static ids would have spared 10 of 14 rebalances"
    assert advice_of(found(("static", replace(ACTUAL, rebalances=13)))) is None
    dearer = replace(calm, silent_partition_ms=112_000)
    assert advice_of(found(("static", dearer))) == (
        "static ids would have spared 10 of 14 rebalances, and left partitions unread for 12 s more"
    )


def test_nothing_is_advised_without_fidelity_or_without_anything_to_spare() -> None:
    assert advice_of(found((STATIC, HELPS), held=True)) is None
    assert advice_of(found((STATIC, None))) is None
    assert advice_of(found((STATIC, HELPS)), generations=2) is None
    assert advice_of(found((STATIC, HELPS)), generations=4, emptied=2) is None  # it stopped on purpose, twice
    assert advice_of(found(("", HELPS))) is None


def test_a_consumer_group_gets_only_advice_that_applies_to_it() -> None:
    group = replace(history(), protocol="consumer")
    assert advice(group, found(("assignor=sticky", HELPS))) is None
    got = advice(group, found(("session.timeout.ms=20000", HELPS)))
    assert got is not None
    assert got.sentence.startswith("consumer.session.timeout.ms=20000 would have spared ")
    got = advice(history(), found(("consumer", HELPS)))
    assert got is not None
    assert got.sentence.startswith(f"group.protocol=consumer would have spared {HALF}")


def test_no_heartbeat_is_advised_from_an_inferred_log() -> None:
    assert advice_of(found(("heartbeat.interval.ms=1000", HELPS))) is not None
    assert advice_of(found(("heartbeat.interval.ms=1000", HELPS), source=LOG)) is None
    assert advice_of(found(("deploy=rolling:1", HELPS))) is not None
    assert advice_of(found(("deploy=rolling:1", HELPS)), emptied=1) is None


def test_the_gain_of_the_unchanged_replay_does_not_count() -> None:
    comparison = found((STATIC, HELPS))
    assert advice(history(), comparison) is not None
    assert advice(history(), replace(comparison, played=replace(HELPS, rebalances=5))) is None
    half = advice(history(), replace(comparison, played=replace(ACTUAL, paused_partition_ms=150_000, rebalances=12)))
    assert half is not None
    assert (half.spared, half.gain_ms) == (8, 100_000)


def test_fewer_partitions_of_dead_members_are_no_gain() -> None:
    """With another assignment they might have had fewer partitions, or more."""
    group = history()
    quiet = found(("assignor=sticky", replace(ACTUAL, silent_partition_ms=40_000)))
    assert advice(group, quiet) is not None
    stay = Stay("m", None, "c", "/h", 45_000, 60_000, 0)
    stay.end, stay.end_ms, stay.heard_ms = EXPIRED, 100_000, 55_000
    group.stays.append(stay)
    assert advice(group, quiet) is None


def test_members_that_join_or_stop_in_sequence_are_no_trouble() -> None:
    group = history(generations=7)
    group.generations[:] = [
        one._replace(stopped_ms=ms, start_ms=ms + 100)
        for one, ms in zip(group.generations, (0, 5_000, 9_000, 60_000, 61_000, 90_000, 91_000), strict=True)
    ]
    group.emptied[:] = [61_500]
    for came_ms, went_ms in ((0, 60_000), (5_000, 61_000), (9_000, 61_500), (90_000, None), (91_000, None)):
        stay = Stay(f"m-{came_ms}", None, "c", "/h", 10_000, 60_000, came_ms)
        stay.end, stay.end_ms = None if went_ms is None else LEFT, went_ms
        group.stays.append(stay)
    assert planned(group) == set(range(7))
    assert advice(group, found((STATIC, HELPS))) is None
    assert advice(group, found(("delay=9s", HELPS))) is not None
    group.stays[0].end = EXPIRED  # it died, and the others continued for a second
    assert planned(group) == {0, 1, 2, 4, 5, 6}


def test_deaths_are_not_treated_as_a_deploy() -> None:
    group = history()
    assert advice(group, found(("deploy=rolling:1", HELPS))) is not None
    for number in range(3):
        stay = Stay(f"m-{number}", None, "c", "/h", 10_000, 60_000, 0)
        stay.end, stay.end_ms = EXPIRED, 20_000 * number
        group.stays.append(stay)
    assert advice(group, found(("deploy=rolling:1", HELPS))) is None


def test_a_member_that_leaves_again_and_again_is_no_deploy() -> None:
    group = history()
    for number in range(4):
        stay = Stay(f"m-{number}", None, "c", "/h", 10_000, 60_000, 100_000 + 20_000 * number)
        stay.end, stay.end_ms = LEFT, 110_000 + 20_000 * number
        group.stays.append(stay)
        assert (advice(group, found(("deploy=all", HELPS))) is None) == (number >= 2)


def test_a_return_to_the_classic_protocol_is_not_advised() -> None:
    group = replace(history(), protocol="consumer")
    assert advice(group, found(("classic,assignor=cooperative-sticky", HELPS))) is None
    assert advice(group, found(("classic", HELPS))) is None


def test_epochs_of_the_consumer_protocol_are_not_counted_as_rebalances() -> None:
    assert advice_of(found(("consumer", replace(HELPS, rebalances=40)))) == (
        f"group.protocol=consumer would have spared {HALF}; a crash would have stayed unnoticed 50 s longer"
    )


def test_no_eager_strategy_is_advised_for_a_cooperative_group() -> None:
    calm = replace(ACTUAL, rebalances=4)
    group = history()
    assert advice(group, found(("assignor=sticky", calm))) is not None
    assert advice(group, found(("classic,assignor=sticky", calm))) is None
    group.generations[:] = [one._replace(protocol="cooperative-sticky") for one in group.generations]
    assert advice(group, found(("assignor=sticky", calm))) is None


def test_rounds_of_a_cooperative_strategy_are_not_counted_against_it() -> None:
    assert advice_of(found(("cooperative", replace(HELPS, rebalances=20)))) == (
        f"the assignor cooperative-sticky would have spared {HALF}; a crash would have stayed unnoticed 50 s longer"
    )


def test_the_cost_of_the_first_formation_is_no_trouble() -> None:
    formed = replace(ACTUAL, forming_partition_ms=200_000)
    quicker = replace(formed, paused_partition_ms=0, forming_partition_ms=0)
    comparison = replace(found(("consumer", quicker)), actual=formed)
    assert advice_of(comparison) is None


@pytest.mark.parametrize(("asked_ms", "is_told"), [(0, False), (5_000, True), (10_000, True), (30_000, False)])
def test_a_longer_initial_delay_is_advised_but_not_a_shorter_one(asked_ms: int, is_told: bool) -> None:
    group = replace(history(), initial_delay_ms=3_000)
    calm = replace(ACTUAL, rebalances=4, paused_partition_ms=230_000)
    got = advice(group, found((f"delay={asked_ms}", calm)))
    assert (got is not None) is is_told
    if got is not None:
        assert got.sentence.endswith(f"an empty group would wait {asked_ms // 1000 - 3} s longer for company")
    # it is not known how long it really waited: a gain alone does not count
    assert advice(group, found(("delay=5000", replace(ACTUAL, paused_partition_ms=0)))) is None


@pytest.mark.parametrize("name", ["session.timeout.ms", "max.poll.interval.ms"])
def test_no_shorter_timeout_is_advised(name: str) -> None:
    played = history()
    played.stays.append(Stay("m", None, "c", "/h", 30_000, 30_000))
    for value, is_told in (("29999", False), ("30000", True)):
        assert (advice(played, found((f"{name}={value}", HELPS))) is not None) is is_told


def test_the_simplest_of_nearly_equal_settings_is_advised() -> None:
    best = replace(HELPS, paused_partition_ms=10_000)
    got = advice_of(
        found(("static,assignor=sticky,session.timeout.ms=60000", best), ("static", HELPS), ("deploy=all", HELPS))
    )
    assert got is not None
    assert got.startswith("static ids would")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("static,assignor=sticky", "static ids and the assignor sticky"),
        ("deploy=rolling:2,session=10s", "session.timeout.ms=10000 and restarting 2 members at a time"),
        ("deploy=all", "restarting all members at once"),
        ("consumer", "group.protocol=consumer"),
    ],
)
def test_settings_are_described_in_words(text: str, said: str) -> None:
    assert words(parse(text)[0]) == said


@pytest.mark.parametrize("source", [EVENTS, LOG])
def test_a_group_that_restarts_its_members_is_advised_static_ids(source: str) -> None:
    """The dead time of the restarts, 5 s each, costs less than the rebalances that they cause."""
    world, members = running("a", "b", "c")
    for name in ("a", "b", "c"):
        restart(world, members[name], 5_000)
        world.run(60_000)
    if source == EVENTS:
        played = from_events.history_of(GROUP, world.events, world.ms)
    else:
        played = from_log.history_of(GROUP, world.records, end_ms=world.ms)
    got = advice(played, compare(played, parse('[{"static": true}, {"session.timeout.ms": 45000}]')))
    assert got is not None
    assert got.setting.static
    assert got.sentence.startswith("static ids would have spared 6 of 7 rebalances")


def test_a_group_at_rest_is_advised_nothing() -> None:
    world, _ = running("a", "b")
    played = from_events.history_of(GROUP, world.events, world.ms)
    assert advice(played, compare(played, DEFAULT_GRID)) is None


def test_rebalances_after_a_silence_of_all_groups_need_no_advice() -> None:
    known, compared = history(), found((STATIC, HELPS))
    assert advice(known, compared) is not None
    first_ms, last_ms = known.generations[0].start_ms, known.generations[-1].start_ms
    known.away = [(first_ms - 120_000, last_ms)]
    assert advice(known, compared) is None


@pytest.mark.parametrize(("end", "heard_ms"), [(LEFT, None), (EXPIRED, 9_000)])
def test_a_deploy_soon_after_a_silence_may_need_advice(end: str, heard_ms: int | None) -> None:
    """Members that leave, or die, though they were there after the silence, have another reason."""
    known = history()
    known.generations[:] = [one._replace(start_ms=10_000 + 1_000 * one.number) for one in known.generations]
    known.away = [(-120_000, 1_000)]
    assert "hardly rebalanced" in unadvised(known, found((STATIC, HELPS)))
    known.stays += [Stay("m", None, "c", "/h", 6_000, 60_000, 0, end=end, end_ms=11_500, heard_ms=heard_ms)]
    assert "hardly rebalanced" not in unadvised(known, found((STATIC, HELPS)))


def test_a_group_is_not_advised_what_it_has() -> None:
    known = history()
    known.stays += [Stay("m", "i", "c", "/h", 45_000, 60_000)]
    assert advice(known, found((STATIC, HELPS))) is None
    assert advice(known, found(("session.timeout.ms=60000", HELPS))) is not None
    assert advice(known, found(("assignor=range", HELPS))) is None
    assert advice(known, found(("assignor=sticky", HELPS))) is not None


def test_the_reason_for_no_advice_is_given() -> None:
    held = replace(found((STATIC, HELPS)), fidelity=Fidelity(LOG, 20, 12, True, "mostly members differ"))
    assert unadvised(history(), held) == "mostly members differ"
    assert unadvised(history(generations=2), found((STATIC, HELPS))) == (
        "it hardly rebalanced, except when it formed and when all members stopped"
    )
    dear = Figures(4, 3, 20_000, 400_000, 60_000.0)
    assert unadvised(history(), found((STATIC, dear), ("assignor=sticky", ACTUAL))) == (
        "static ids and session.timeout.ms=60000 would have spared 10 of 14 rebalances, but left partitions unread for "
        "2 min longer (partitions added up)"
    )
    slight = replace(ACTUAL, paused_partition_ms=150_000)
    assert unadvised(history(LOG), found(("assignor=sticky", slight), source=LOG)) == (
        "the most that a setting would have spared (the assignor sticky: 50 s of 5 min of unread time, partitions "
        "added up) is too little to be sure of"
    )
    assert unadvised(replace(history(), protocol="consumer"), found(("assignor=sticky", HELPS))) == (
        "none of the settings that were played is one for it"
    )
    slow = history()
    slow.stays += [Stay("m", None, "c", "/h", 45_000, 60_000, 0)]
    slow.stays[0].end, slow.stays[0].reason = LEFT, "consumer poll timeout has expired."
    assert unadvised(slow, found(("assignor=sticky", HELPS))) == (
        "only a longer max.poll.interval.ms, or less work from poll to poll, heals who does not poll in time"
    )
    slow.stays += [Stay(f"{at}", None, "c", "/h", 45_000, 60_000, 0, end=LEFT, end_ms=9) for at in range(3)]
    assert "heals" not in unadvised(slow, found(("assignor=sticky", HELPS)))
    slow.stays[1].end, slow.stays[1].reason = slow.stays[0].end, slow.stays[0].reason  # a third of all that left
    assert "heals" in unadvised(slow, found(("assignor=sticky", HELPS)))
    assert unadvised(history(), found(("assignor=sticky", ACTUAL))) == (
        "no setting that was played would have spared anything"
    )
