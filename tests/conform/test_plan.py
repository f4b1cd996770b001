"""Which stories are played, with which settings and names; and what is said of the others."""

from __future__ import annotations

import pytest

from muster.conform import catalogue
from muster.conform.plan import Plan, described, plan
from muster.conform.player.story import Story
from muster.conform.results import State
from muster.conform.settings import DELAY, MAIN, MIN_SESSION, SETS, Known, groups_of, unhurried, wanted
from muster.coordinator.properties import lookup

NEWEST = (4, 4)
OF_GROUPS = frozenset({"share.session.timeout.ms", "share.assignment.interval.ms"})


def story(*lines: str, name: str = "a-story") -> Story:
    return Story(f"conform/stories/share/{name}.txt", "\n".join(["# A title.", *lines, ""]))


def planned(one: Story, known: Known, *, may_alter: bool = False) -> Plan:
    return plan([one], known, "run", NEWEST, may_alter=may_alter)


JOINS = ("broker group.initial.rebalance.delay.ms=0", "A: enter", "    A <- join ok")
SHARES = ("broker group.share.session.timeout.ms=1500", "A: share-heartbeat group=g2", "    A <- share-heartbeat ok")


def test_a_story_with_fitting_settings_is_played_under_a_name_of_the_run() -> None:
    (one,) = planned(story(*JOINS), Known({"group.initial.rebalance.delay.ms": "0"})).played
    assert one.groups == ["conform-run-0-g"]


def test_a_story_whose_settings_do_not_fit_is_skipped_and_says_what_it_needs() -> None:
    (outcome,) = planned(story(*JOINS), Known({"group.initial.rebalance.delay.ms": "3000"})).skipped
    assert outcome.state is State.SKIPPED
    assert outcome.why == "needs group.initial.rebalance.delay.ms=0 (in the properties of the broker)"
    assert [(one.name, one.found) for one in outcome.settings] == [("group.initial.rebalance.delay.ms", "3000")]


def test_a_story_that_needs_more_than_the_broker_has_kept_quiet_about_is_played_without_the_setting_being_on() -> None:
    assert planned(story("broker group.share.assignment.interval.ms=0", *SHARES[1:]), Known({})).played
    assert planned(story("broker group.share.assignment.interval.ms=700", *SHARES[1:]), Known({})).skipped


def test_without_described_configs_every_story_is_played() -> None:
    assert planned(story(*JOINS), Known(None)).played


def test_a_streams_group_of_an_older_release_gets_the_initial_delay_with_its_other_configs() -> None:
    standby, delay = "streams.num.standby.replicas", "streams.initial.rebalance.delay.ms"
    known = Known({f"group.{standby}": "0", f"group.{delay}": "0"}, of_groups=frozenset({standby, delay}))
    text = (
        f"broker group.{delay}=0 group.{standby}=1",
        "A: streams-heartbeat epoch=0",
        "    A <- streams-heartbeat ok",
    )
    for release, configs in (((4, 2), {standby: "1", delay: "0"}), (NEWEST, {standby: "1"})):
        (one,) = plan([story(*text)], known, "run", release, may_alter=True).played
        assert one.group_configs == configs


def test_a_setting_of_groups_is_given_to_the_storys_groups_if_allowed() -> None:
    known = Known({"group.share.session.timeout.ms": "45000"}, of_groups=OF_GROUPS)
    (refused,) = planned(story(*SHARES), known).skipped
    assert refused.why == "needs group.share.session.timeout.ms=1500 (--may-alter sets it)"
    allowed = planned(story(*SHARES), known, may_alter=True)
    assert allowed.played[0].group_configs == {"share.session.timeout.ms": "1500"}
    assert allowed.phases == [({}, [*allowed.played])]
    assert "configs of groups conform-run-0-g2~*: share.session.timeout.ms=1500, removed at the end" in described(
        allowed
    )


def test_stories_that_need_another_setting_of_all_brokers_are_played_in_a_phase_of_their_own() -> None:
    known = Known({"group.initial.rebalance.delay.ms": "3000"}, dynamic=frozenset({"group.initial.rebalance.delay.ms"}))
    chosen = plan([story(*JOINS), story(*SHARES)], known, "run", NEWEST, may_alter=True)
    ((configs, ones),) = chosen.phases
    assert configs == {"group.initial.rebalance.delay.ms": "0"}
    assert [one.story.title for one in ones] == ["A title."]
    assert any("put back then" in line for line in described(chosen))


@pytest.mark.parametrize(("found", "is_played"), [("1000", True), ("50", True), ("2000", False), (None, False)])
def test_a_lower_bound_may_be_lower_than_that_of_the_story(found: str | None, is_played: bool) -> None:
    one = story("broker group.share.min.session.timeout.ms=1000", *SHARES[1:])
    assert bool(planned(one, Known({"group.share.min.session.timeout.ms": found})).played) is is_played


@pytest.mark.parametrize(("session", "found", "is_played"), [("", "6000", True), ("session=3000", "6000", False)])
def test_a_story_needs_a_lower_bound_of_sessions_only_for_its_own_sessions(
    session: str, found: str, is_played: bool
) -> None:
    one = story("broker group.min.session.timeout.ms=100", f"A: enter {session}", "    A <- join ok")
    assert bool(planned(one, Known({"group.min.session.timeout.ms": found})).played) is is_played


def test_settings_of_classic_groups_do_not_matter_to_a_story_without_them() -> None:
    one = story("broker group.initial.rebalance.delay.ms=0 group.min.session.timeout.ms=100", *SHARES[1:])
    assert planned(one, Known({DELAY: "3000", MIN_SESSION: "6000"})).played


@pytest.mark.parametrize(
    ("name", "found", "is_played"),
    [("join-is-a-barrier", "3000", True), ("join-is-a-barrier", "5000", False), ("session-expires", "3000", False)],
)
def test_some_stories_do_not_mind_an_initial_delay(name: str, found: str, is_played: bool) -> None:
    assert bool(planned(story(*JOINS, name=name), Known({DELAY: found})).played) is is_played


def test_stories_that_do_not_mind_an_initial_delay_are_stories_in_which_no_time_passes() -> None:
    """Each of them was right on a Kafka with its default delay."""
    timeless = {one.name for one in catalogue.stories() if not one.takes_time and one.broker.get(DELAY) == "0"}
    assert unhurried() <= timeless
    assert len(unhurried()) > 200


def test_a_story_about_the_bound_itself_needs_exactly_this_bound() -> None:
    one = story("broker group.min.session.timeout.ms=1000", "A: enter", "    A <- join INVALID_SESSION_TIMEOUT")
    assert planned(one, Known({"group.min.session.timeout.ms": "50"})).skipped


def test_a_story_of_newer_requests_is_skipped_for_an_older_release() -> None:
    chosen = plan([story("since 4.2", *JOINS)], Known(None), "run", (4, 1), may_alter=False)
    assert [one.why for one in chosen.skipped] == ["Kafka has it since 4.2"]


def test_a_story_for_a_single_broker_is_skipped_on_a_cluster() -> None:
    chosen = plan([story("tags one-broker", *JOINS)], Known(None), "run", NEWEST, may_alter=False, brokers=3)
    assert [one.why for one in chosen.skipped] == ["it is for a single broker"]


def test_a_story_for_a_client_without_a_name_is_skipped_with_a_login() -> None:
    one = story("tags anonymous", *JOINS)
    chosen = plan([one], Known(None), "run", NEWEST, may_alter=False, is_anonymous=False)
    assert [one.why for one in chosen.skipped] == ["it is for a client without a login and a certificate"]
    assert plan([one], Known(None), "run", NEWEST, may_alter=False).played


def test_stories_with_other_numbers_of_partitions_have_topics_of_their_own() -> None:
    two = [story("topics t1=3", *SHARES[1:]), story("topics t1=1", *SHARES[1:])]
    chosen = plan(two, Known(None), "run", NEWEST, may_alter=False)
    assert [one.topics for one in chosen.played] == [{"conform-run-0-t1": 3}, {"conform-run-1-t1": 1}]


def test_the_settings_together_let_every_story_run() -> None:
    """With `--may-alter`, which gives groups their configs."""
    stories = catalogue.stories()
    of_groups = frozenset(lookup.GROUP)
    left = {one.name for one in stories}
    for values in SETS.values():
        chosen = plan(stories, Known(values, of_groups=of_groups), "run", NEWEST, may_alter=True)
        left -= {one.story.name for one in chosen.played}
        if values is MAIN:
            assert len(left) < 45
    assert left == set()


def test_names_of_groups_are_found_in_requests() -> None:
    assert groups_of(story("A: fetch groups=g,h all", "B: join group=other", "C: commit group=none t1/0=1")) == [
        "g", "h", "other",
    ]  # fmt: skip


def test_a_story_needs_the_defaults_only_of_what_it_asks_for() -> None:
    assert set(wanted(story("A: heartbeat"))) == set()
    assert "group.consumer.migration.policy" in wanted(story("A: consumer-heartbeat epoch=0"))
