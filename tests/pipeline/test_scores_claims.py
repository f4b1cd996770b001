"""Sentences are judged by what the script did, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.recording.truths import GAVE_UP, rates
from tests.pipeline.scores_claims import (
    FINE,
    HELP,
    JUDGES,
    LOOK,
    SKIPPED,
    TOO_SLOW,
    Known,
    Said,
    acts,
    found,
    judged,
    levels,
)
from tests.pipeline.scores_parts import incidents, sentences
from tests.pipeline.scores_seen import UNSEEN, seen

MINUTE = 60_000
END = 10 * MINUTE


def line(kind: str, **other: Any) -> dict[str, Any]:
    return {"kind": kind, "group": "g", **other}


def span(kind: str, what: str, from_ms: int, until_ms: int, **other: Any) -> dict[str, Any]:
    return line(kind, what=what, **{"from": from_ms}, until=until_ms, **{"members": [], **other})


def act(what: str, at: int, who: str | None = "g-1", words: str = "") -> dict[str, Any]:
    return line("act", client_id=who, at=at, what=what, line=words)


TRUTH = [
    line("group", topic="t", partitions=2, static=False, assignor="range"),
    line("group", group="calm", topic="u", partitions=2, static=False, assignor="range"),
    span("episode", "crash_loop", MINUTE, 3 * MINUTE, members=["g-1"]),
    span("episode", "start", 7 * MINUTE, 8 * MINUTE, group="calm"),
    act("killed", MINUTE),
    act("starts", MINUTE + 1_000),
    act("killed", 2 * MINUTE),
    act("frozen", 4 * MINUTE, "g-2"),
    act("sleep", 5 * MINUTE, "g-3", "sleep 9"),
    line("stall", topic="t", partitions=[0], how="stick", **{"from": 6 * MINUTE}, until=8 * MINUTE),
    act("go", 8 * MINUTE, "g-1", "go 0"),
    line("stall", topic="t", partitions=[1], how="stick", **{"from": 9 * MINUTE}, until=END),
    line("regression", cause="rewind", by=None, **{"from": MINUTE}, until=MINUTE),
    span("incident", "skip", MINUTE, MINUTE),
    {"kind": "silence", "how": "away", "from": 3 * MINUTE, "until": 4 * MINUTE},
    line("rebalance", generation=1, cause="member_joined", trigger=None, acted=MINUTE, settled=2 * MINUTE, died=[]),
]


@pytest.mark.parametrize(
    ("said", "is_true"),
    [
        (Said("crash_loop", "g", "", ("g-1",), MINUTE, 3 * MINUTE), True),
        (Said("crash_loop", "g", "", ("g-2",), MINUTE, 3 * MINUTE), False),
        (Said("crash_loop", "g", "", (), MINUTE, 3 * MINUTE), False),
        (Said("slow_poller", "g", "", ("g-3",), 5 * MINUTE, 6 * MINUTE), True),
        (Said("slow_poller", "g", "", ("g-1",), MINUTE, 2 * MINUTE), False),
        (Said("flapping", "g", "", ("g-2",), MINUTE, END), False),
        (Said("member_died", "g", "g-1 died", ("g-1",), MINUTE, 2 * MINUTE), True),
        (Said("member_died", "g", "g-2 died", ("g-2",), 4 * MINUTE, 5 * MINUTE), False),
        (Said("member_died", "g", "g-2 was lost", ("g-2",), 4 * MINUTE, 5 * MINUTE), True),
        (Said("member_died", "g", "g-9 was lost", ("g-9",), 4 * MINUTE, 5 * MINUTE), False),
        (Said("coordinator_or_network_trouble", "g", "", (), 3 * MINUTE, 4 * MINUTE), True),
        (Said("coordinator_or_network_trouble", "g", "", (), 7 * MINUTE, 8 * MINUTE), False),
        (Said("whole_stop", "calm", "stopped", ("c-1",), MINUTE, MINUTE), False),
        (Said("whole_stop", "g", "all died", ("g-1",), MINUTE, MINUTE), True),
        (Said("whole_stop", "calm", "nobody was in the group until 2 members joined", (), 7 * MINUTE, END), True),
        (Said("whole_stop", "g", "nobody was in the group until 2 members joined", (), 7 * MINUTE, END), False),
        (Said("stalled", "g", "", ("t-0",), 6 * MINUTE, 8 * MINUTE), True),
        (Said("stalled", "g", "", ("t-0",), 2 * MINUTE, 6 * MINUTE), False),
        (Said("stalled", "g", "", ("t-1",), 9 * MINUTE, None), True),
        (Said("stalled", "calm", "", ("u-0",)), False),
        (Said("rewind", "g", "", (), MINUTE, MINUTE), True),
        (Said("reset", "g", "", (), MINUTE, MINUTE), False),
        (Said("skip", "g", "", (), MINUTE, MINUTE), True),
        (Said("too_slow", "g", "", (), MINUTE, MINUTE), False),
        (Said("fine", "calm", "fine"), True),
        (Said("fine", "g", "fine"), False),
        (Said("restart", "g", "", ("g-1",), MINUTE, MINUTE + 2_000), True),
        (Said("restart", "calm", "", ("c-1",), MINUTE, MINUTE), False),
        (Said("unstable", "g", ""), False),
    ],
    ids=str,
)
def test_a_sentence_is_true_if_the_truth_supports_it(said: Said, is_true: bool) -> None:
    assert (JUDGES[said.rule](said, Known(TRUTH)) is None) == is_true


def test_nobody_knows_how_a_member_ended_while_the_broker_was_away() -> None:
    back = line("rebalance", generation=2, cause="member_joined", trigger={"client_id": "g-2"}, came=[], died=[],
                acted=4 * MINUTE + 1, settled=4 * MINUTE + 2)  # fmt: skip
    said = Said("restart", "g", "g-2 left or was lost and came back", ("g-2",), 4 * MINUTE, 4 * MINUTE + 2)
    truth = [one for one in TRUTH if one["kind"] != "act"]
    assert JUDGES["restart"](said, Known([*truth, back])) is None
    assert JUDGES["restart"](said._replace(text="g-2 left and came back"), Known([*truth, back])) is not None


def test_a_deleted_group_did_not_only_stop() -> None:
    truth = [*TRUTH, act("stop", 9 * MINUTE), span("incident", "deleted", 9 * MINUTE, 9 * MINUTE)]
    said = Said("stopped", "g", "stopped at 10:00: both members left", (), 9 * MINUTE, 9 * MINUTE)
    assert JUDGES[said.rule](said, Known(truth)) == "it was deleted"
    assert JUDGES[said.rule](said._replace(text="deleted at 10:00"), Known(truth)) is None


def test_the_right_level_of_a_group_follows_from_the_truth() -> None:
    assert levels(TRUTH) == {"g": {HELP}, "calm": {FINE}}
    over = [one for one in TRUTH if one["kind"] == "group"] + [span("incident", "frozen", 1, 2)]
    assert levels(over)["g"] == {LOOK}
    assert levels([*over, span("incident", "skip", 1, 2)])["g"] == {HELP, LOOK}


def test_false_sentences_are_counted() -> None:
    def claim(rule: str, *who: str) -> dict[str, Any]:
        return {"rule": rule, "text": rule, "who": [*who], "from_ms": MINUTE, "until_ms": 3 * MINUTE}

    tables: dict[str, list[dict[str, Any]]] = {
        "verdicts": [
            {"group": "g", "level": HELP, "claims": [claim("crash_loop", "g-1"), claim("slow_poller", "g-1")]},
            {"group": "calm", "level": LOOK, "claims": [claim("too_slow")]},
        ],
        "stalls": [
            {"group": "g", "topic": "t", "partition": 0, "start_ms": 6 * MINUTE, "end_ms": 8 * MINUTE, "status": "STOP"}
        ],
        "regressions": [{"group": "g", "cause": "rewind", "time_ms": MINUTE}],
    }
    assert judged(tables, TRUTH).count == 5
    assert judged(tables, TRUTH).false == [
        "g: slow_poller (['g-1'] always polled in time)",
        "calm: too_slow (it had no incident of too_slow, burst, keeps_up, behind)",
    ]
    first, count, level = sentences(tables, TRUTH)
    assert (first.value, count.value, level.value, level.of) == (40, 5, 1, 2)
    assert level.misses == ("calm: look instead of fine",)
    assert found(tables, TRUTH, SKIPPED).reported == {"g": False}
    assert found(tables, TRUTH, TOO_SLOW).false == ["calm"]
    assert {one.title: str(one) for one in incidents(tables, TRUTH)}["skips"] == "0/1"


def test_the_acts_of_a_script_are_taken_from_the_journal() -> None:
    journal = [
        {"group": "g", "client_id": "g-1", "at": 1, "what": "starts", "by": "script"},
        {"group": "g", "client_id": "g-1", "at": 2, "what": "told", "by": "script", "line": "sleep 9"},
        {"group": "g", "client_id": "g-1", "at": 3, "what": "assigned", "partitions": [0]},
        {"group": "g", "at": 4, "what": "deleted", "by": "tool"},
    ]
    assert [(one["what"], one["client_id"], one["at"]) for one in acts(journal)] == [
        ("starts", "g-1", 1), ("sleep", "g-1", 2), ("deleted", None, 4),
    ]  # fmt: skip


def test_the_rates_of_groups_are_measured() -> None:
    def group(name: str) -> dict[str, Any]:
        return line("group", group=name, commit_ms=1_000)

    def meant(name: str) -> dict[str, Any]:
        return span("incident", "too_slow", 0, 100_000, members=["m"]) | {"group": name}

    lines = [group("slow"), group("keeps"), group("late"), group("stuck"), meant("slow"), meant("keeps"),
             line("stall", group="stuck"), line("end", at=100_000),
             span("episode", "formation", 0, 1) | {"group": "late"}]  # fmt: skip
    last = {("slow", "t", 0): 500, ("keeps", "t", 0): 990, ("late", "t", 0): 10, ("stuck", "t", 0): 10}
    found = {one["group"]: one for one in rates(lines, last, {("t", 0): 1_000})}
    assert {name: one["what"] for name, one in found.items()} == {
        "slow": "too_slow", "keeps": "keeps_up", "late": "behind",
    }  # fmt: skip
    assert (found["slow"]["written_per_s"], found["slow"]["read_per_s"], found["slow"]["needed"]) == (10, 5, 2)


def test_a_group_that_got_slow_is_measured_from_then_on() -> None:
    before = {"written": 500, "read": 500}
    got_slow = span("incident", "too_slow", 50_000, 100_000, members=["m", "n"]) | {"group": "g", "before": before}
    gave_up = line("no_stall", group="other", why=GAVE_UP)
    groups = [line("group", group=name, commit_ms=1_000) for name in ("g", "other")]
    lines = [*groups, got_slow, gave_up, line("end", at=100_000)]
    (slow,) = rates(lines, {("g", "t", 0): 700, ("other", "t", 0): 10}, {("t", 0): 1_000})
    assert (slow["what"], slow["written_per_s"], slow["read_per_s"], slow["needed"]) == ("too_slow", 10, 4, 5)
    silences = [{"kind": "silence", "from": since, "until": since + 30_000} for since in (0, 60_000)]
    (away,) = rates([*lines, *silences], {("g", "t", 0): 700, ("other", "t", 0): 10}, {("t", 0): 1_000})
    assert away["read_per_s"] == 10  # only the second silence is in its time


def test_a_member_that_hangs_does_not_poll() -> None:
    (hanging,) = acts([{"group": "g", "client_id": "m", "at": 1, "what": "told", "line": "hang", "by": "script"}])
    assert hanging["what"] == "sleep"


@pytest.mark.parametrize(
    ("killed_ms", "others", "is_true"),
    [
        (3 * MINUTE - 5_000, (), True),
        (3 * MINUTE - 20_000, (), False),
        (3 * MINUTE - 20_000, ("g-2",), True),  # a living member was lost with it
        (3 * MINUTE - 30_000, ("g-2",), False),
    ],
)
def test_a_member_that_was_killed_long_before_a_silence_was_not_lost_by_it(
    killed_ms: int, others: tuple[str, ...], is_true: bool
) -> None:
    silence = {"kind": "silence", "how": "away", "from": 3 * MINUTE, "until": 5 * MINUTE}
    died = [{"client_id": "g-1", "noticed": killed_ms + 10_000, "last_life": killed_ms}]
    died += [{"client_id": name, "noticed": 3 * MINUTE, "last_life": 3 * MINUTE - 40_000} for name in others]
    lost = line("rebalance", cause="session_expired", acted=killed_ms + 10_000, settled=3 * MINUTE, died=died)
    known = Known([line("group", session_ms=10_000), silence, act("killed", killed_ms), lost])
    said = Said("coordinator_or_network_trouble", "g", "g-1 was lost", ("g-1",), 3 * MINUTE - 15_000, 5 * MINUTE)
    assert (JUDGES[said.rule](said, known) is None) == is_true


def test_a_skip_that_somebody_wanted_may_be_reported_or_not() -> None:
    wanted = span("incident", "skip", 0, 1, members=[], meant=True) | {"group": "g"}
    claim = {"rule": "skip", "text": "t", "who": [], "from_ms": None, "until_ms": None}
    for claims in ([], [claim]):
        assert found({"verdicts": [{"group": "g", "claims": claims}]}, [wanted], "skip") == ({}, [])


@pytest.mark.parametrize(
    ("text", "who", "is_true"),
    [("was lost: perhaps one host", "g-2", True), ("was lost: perhaps one host", "g-1", False),
     ("was lost, perhaps by coordinator or network", "g-2", False)],
)  # fmt: skip
def test_a_lost_node_is_no_trouble_of_the_coordinator(text: str, who: str, is_true: bool) -> None:
    known = Known([{"kind": "node", "groups": ["g"], "members": ["g-2"], "from": 0, "until": MINUTE}])
    said = Said("coordinator_or_network_trouble", "g", text, (who,), 0, MINUTE)
    assert (JUDGES[said.rule](said, known) is None) == is_true


@pytest.mark.parametrize(("offset", "is_true"), [("1,234", True), ("1,235", False)])
def test_a_claim_of_a_poison_record_names_its_offset(offset: str, is_true: bool) -> None:
    stall = line("stall", topic="t", partitions=[0], how="stick", **{"from": 0}, until=END)
    known = Known([stall, span("incident", "poison", 0, END, topic="t", partition=0, offset=1234)])
    said = Said("stalled", "g", f"m committed offset {offset} of t-0 again and again", ("t-0",), 0, END)
    assert (JUDGES[said.rule](said, known) is None) == is_true


def test_a_claim_of_slow_members_names_the_right_ones_and_the_right_time() -> None:
    slow = {**span("incident", "too_slow", 0, END, members=["m"]), "group": "g"}
    topics = {**span("incident", "two_topics", 0, END), "topics": {"t": ["m"], "u": ["n"]}}
    skip = {**span("incident", SKIPPED, 0, END), "topic": "t", "partitions": [1]}
    known = Known([slow, topics, skip])
    for rule, who, is_true in ((TOO_SLOW, "m", True), (TOO_SLOW, "n", False), ("two_topics", "o", False),
                               (SKIPPED, "t-1", True), (SKIPPED, "t-0", False)):  # fmt: skip
        assert (JUDGES[rule](Said(rule, "g", "t", (who,)), known) is None) == is_true
    claim = {"rule": TOO_SLOW, "text": "t", "who": [], "from_ms": 2 * MINUTE, "until_ms": None}
    figures = incidents({"verdicts": [{"group": "g", "claims": [claim]}]}, [slow])
    assert [one.misses for one in figures if "since" in one.title] == [("g: 120 s beside the true start",)]


def test_a_stall_counts_only_if_the_partition_stood_still() -> None:
    stall = {"kind": "stall", "group": "g", "topic": "t", "partitions": [0, 1], "from": 0, "until": 100_000}
    commits = [
        {"group": "g", "topic": "t", "partition": partition, "time_ms": at, "committed_offset": partition * at}
        for partition in (0, 1) for at in range(0, 100_000, 5_000)
    ]  # fmt: skip
    assert [line["partitions"] for line in seen([stall], commits, ())] == [[0]]
    poison = {"kind": "incident", "what": "poison", "group": "g", "topic": "t", "from": 0, "until": 100_000}
    kept = seen([poison | {"partition": 0}, poison | {"partition": 1}], commits, ())
    assert [line["partition"] for line in kept] == [0]


def test_lost_members_of_a_group_that_nobody_stopped_are_no_false_stop() -> None:
    died = [{"client_id": "a", "last_life": None}]
    known = Known([{"kind": "rebalance", "group": "g", "acted": 1_000, "settled": 2_000, "died": died}])
    said = Said("whole_stop", "g", "its only member was lost and nobody came back", ("a",), 1_000, 2_000)
    assert JUDGES["whole_stop"](said, known) is None
    assert JUDGES["whole_stop"](said._replace(text="its only member stopped"), known) is not None


def test_the_first_lost_member_of_a_rebalance_is_its_trigger() -> None:
    lines = [line("rebalance", cause=cause, trigger={"client_id": "a"}, acted=1_000, settled=2_000, died=[])
             for cause in ("session_expired", "member_joined")]  # fmt: skip
    said = Said("member_died", "g", "a was lost", ("a",), 1_000, 2_000)
    assert [JUDGES["member_died"](said, Known([one])) for one in lines] == [None, "nothing happened to a"]
    # it was lost, so it left or was lost
    said = Said("scale_in", "g", "a left or was lost", ("a",), 1_000, 2_000)
    assert [JUDGES["scale_in"](said, Known([one])) is None for one in lines] == [True, False]


def test_a_claim_that_a_group_is_behind_names_partitions() -> None:
    known = Known([span("incident", "too_slow", 0, 9, members=["g-2"])])
    assert JUDGES["behind"](Said("behind", "g", "g-2 is behind", ("g-3",), 1, 2), known) is None


@pytest.mark.parametrize("away", [{"kind": "silence"}, {"kind": "episode", "what": "trouble"}])
def test_a_process_that_was_frozen_while_the_broker_was_away_is_not_shown(away: dict[str, Any]) -> None:
    truth = [{**away, "from": 10, "until": 90}, span("incident", "frozen", 20, 80), span("incident", "frozen", 20, 95)]
    assert [one["what"] for one in seen(truth, (), ()) if one["kind"] == "incident"] == [UNSEEN, "frozen"]


def test_a_member_that_is_missing_from_a_generation_that_nobody_explains_was_lost_or_left() -> None:
    some = [
        {
            "group": "g",
            "generation": number,
            "start_ms": 1_000 * number,
            "members": [{"client_id": who} for who in whos],
        }
        for number, whos in ((1, "ab"), (2, "a"))
    ]
    known = Known(seen([line("unsure", first=2, last=2)], (), some))
    said = Said("member_died", "g", "was lost", ("b",), 2_000, 2_000)
    found = [JUDGES["member_died"](one, known) for one in (said, said._replace(who=("a",)))]
    assert found == [None, "nothing happened to a"]


def test_a_process_that_died_before_it_was_a_member_shows_no_loss() -> None:
    loop = span("episode", "crash_loop", 0, 9, members=["b"])
    some = [
        {"group": "g", "generation": number, "start_ms": number,
         "members": [{"client_id": who[0], "member_id": who} for who in whos]}
        for number, whos in ((1, ["a1"]), (2, ["a1", "b2"]), (3, ["a1"]), (4, ["a1", "b3"]), (5, ["b4"]))
    ]  # fmt: skip
    assert [one["losses"] for one in seen([loop], (), some)] == [2]


def test_a_group_without_a_record_has_no_level() -> None:
    truth = [line("group", topic="t"), line("group", topic="t") | {"group": "h"}]
    assert [one["group"] for one in seen(truth, [{"group": "h"}], ())] == ["h"]


@pytest.mark.parametrize(("from_s", "until_s", "count"), [(170, 230, 0), (100, 200, 2), (120, 250, 0)])
def test_a_stall_counts_only_if_the_log_shows_it_while_the_broker_is_there(
    from_s: int, until_s: int, count: int
) -> None:
    when = {"from": from_s * 1_000, "until": until_s * 1_000}
    stuck = line("stall", topic="t", partitions=[0], how="stick", **when)
    poison = line("incident", what="poison", topic="t", partition=0, offset=3, members=["g-1"], **when)
    truth = [
        stuck,
        poison,
        act("go", until_s * 1_000, words="go 0"),
        {"kind": "silence", "from": 150_000, "until": END},
    ]
    commit = {"group": "g", "topic": "t", "partition": 0, "time_ms": from_s * 1_000, "committed_offset": 3}
    assert len([one for one in seen(truth, [commit], ()) if one["kind"] in ("stall", "incident")]) == count


def test_a_member_may_get_its_partitions_while_it_does_not_poll() -> None:
    truth = [line("stall", topic="t", partitions=[], how="sleep", **{"from": 10_000, "until": 200_000})]
    commits = [{"group": "g", "topic": "t", "partition": partition, "time_ms": at, "committed_offset": at}
               for partition, at in ((0, 1), (1, 1), (1, 100_000), (0, 210_000))]  # fmt: skip
    assert [one["partitions"] for one in seen(truth, commits, ())] == [[0]]


def test_a_rebalance_that_the_broker_forgot_when_it_stopped_does_not_count() -> None:
    silence = {"kind": "silence", "how": "away", "from": MINUTE, "until": 3 * MINUTE}
    both = [line("rebalance", generation=3, settled=at_ms) for at_ms in (MINUTE + 300, 4 * MINUTE)]
    assert seen([silence, *both], [], []) == [silence, both[1]]
    assert seen(both, [], []) == both  # a group that was deleted begins with the same generations


def test_records_that_a_fast_member_skips_are_not_shown() -> None:
    truth = [span("incident", "skip", 0, 9, members=["g-1"]), span("incident", "skip", 0, 9)]
    truth.append(span("incident", "skip", 0, 9, members=["g-1"], topic="t", records=150, shown=True))
    commits = [{"group": "g", "topic": "t", "partition": 0, "time_ms": at, "committed_offset": offset}
               for at, offset in ((0, 10), (5, 20), (8, 180))]  # fmt: skip
    assert [one["what"] for one in seen(truth, commits, ())] == [UNSEEN, SKIPPED, SKIPPED]
    assert [one["what"] for one in seen(truth, commits[:2], ())] == [UNSEEN, SKIPPED, UNSEEN]
    silence = {"kind": "silence", "from": -MINUTE, "until": -1}  # a member may have read the records in it
    assert [one.get("what") for one in seen([silence, *truth], commits, ())] == [None, UNSEEN, SKIPPED, UNSEEN]


def test_a_rebalance_counts_though_nobody_knows_its_cause() -> None:
    one = line("rebalance", generation=1, cause="member_joined", trigger=None, acted=1, settled=2, died=[])
    few = [line("group", topic="t"), one, line("unsure", first=20, last=None)]
    many = [*few, line("unsure", first=2, last=10)]
    assert JUDGES["unstable"](Said("unstable", "g", ""), Known(few)) is not None
    assert JUDGES["unstable"](Said("unstable", "g", ""), Known(many)) is None
    assert (levels(few)["g"], levels(many)["g"]) == ({FINE}, {FINE, LOOK})


def test_a_group_whose_members_were_all_lost_may_need_help() -> None:
    def rebalance(at: int, cause: str, **more: Any) -> dict[str, Any]:
        times = {"acted": at, "settled": at + 1}
        return line("rebalance", cause=cause, trigger={"client_id": "g-1"}, **{"died": [], "came": [], **times, **more})

    group, died = line("group", topic="t"), [{"client_id": "g-1"}]
    truth = [group, rebalance(1, "member_joined"), rebalance(9, "session_expired", died=died)]
    assert levels(truth)["g"] == {HELP, LOOK}
    assert levels([*truth, rebalance(20, "member_joined")])["g"] == {FINE}
    assert levels([*truth, rebalance(20, "member_joined"), rebalance(30, "member_left", left=["g-1"])])["g"] == {FINE}


def test_a_member_that_gets_its_partition_back_lets_it_stand_still_again() -> None:
    truth = [
        line("stall", topic="t", partitions=[0], how="stick", **{"from": 0, "until": 50_000}),
        act("stick", 0, words="stick 0"), act("killed", 200_000),
    ]  # fmt: skip
    commits = [{"group": "g", "topic": "t", "partition": 0, "time_ms": at, "committed_offset": offset}
               for at, offset in ((1, 5), (50_001, 6), (60_000, 7))]  # fmt: skip
    found = [(one["from"], one["until"]) for one in seen(truth, commits, ()) if one["kind"] == "stall"]
    assert found == [(0, 50_001), (60_000, 200_000)]
    assert len([one for one in seen([*truth, act("go", 70_000, words="go 0")], commits, ())
                if one["kind"] == "stall"]) == 1  # fmt: skip


def test_two_applications_count_only_if_they_met() -> None:
    line = {"kind": "incident", "what": "two_topics", "group": "g", "topics": {"a": [], "b": []}, "until": 100_000}
    both = {"group": "g", "start_ms": 0, "end_ms": None, "members": [{"topics": ["a"]}, {"topics": ["b"]}]}
    assert seen([line], (), [both])[0]["what"] == "two_topics"
    assert seen([line], (), [both | {"end_ms": 20_000}])[0]["what"] == UNSEEN


@pytest.mark.parametrize(("partition", "kinds"), [(0, ["stall", "poison"]), (1, ["unseen"])])
def test_a_partition_that_was_never_committed_shows_no_stall(partition: int, kinds: list[str]) -> None:
    times = {"from": 0, "until": END}
    truth = [line("stall", topic="t", partitions=[partition], how="stick", **times),
             span("incident", "poison", 0, END, topic="t", partition=partition, offset=1)]  # fmt: skip
    commit = {"group": "g", "topic": "t", "partition": 0, "time_ms": MINUTE, "committed_offset": 1}
    assert [one.get("what", one["kind"]) for one in seen(truth, [commit], [])] == kinds
