"""What the tasks and topics of a streams group say, in its verdict: from records to the sentence."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from muster.pipeline.frames import frame_of, in_this_process
from muster.pipeline.schema import DECODED, RAW
from muster.pipeline.tables.build import build
from muster.pipeline.tables.epoch_states import epochs_in
from muster.pipeline.tables.inputs import EVENTS_TOPIC, Inputs, events
from tests.pipeline.streams.written import Written

MINUTE = 60_000
NOON = 1_700_000_000_000 // 86_400_000 * 86_400_000 + 12 * 60 * MINUTE
TWO = {"0": ("lines",), "1": ("words",)}


def written() -> Written:
    return Written(TWO, NOON)


def until(log: Written, minutes: float) -> Written:
    """Write a record of another group, so that the log ends then."""
    log.at(NOON + round(minutes * MINUTE))
    return log


def event(kind: str, minutes: float, **fields: Any) -> dict[str, Any]:
    value = {"v": 1, "kind": kind, "group": "g", "time": NOON + round(minutes * MINUTE), **fields}
    return {"topic": EVENTS_TOPIC, "partition": 0, "offset": 0, "key": b"g", "value": json.dumps(value).encode()}


def verdict(log: Written, *some: dict[str, Any], topics: set[str] | None = None) -> dict[str, Any]:
    """The row of `verdicts`. The log ends at the time of its last `at`."""
    end = Written({}, log.now_ms).member("other").epoch(1).has("other").decoded("other")
    rows = [*log.decoded("g"), *({**row, "log_offset": 1_000 + row["log_offset"]} for row in end)]
    with in_this_process():
        decoded = frame_of(pa.Table.from_pylist(rows, DECODED))
        of_events = events(frame_of(pa.Table.from_pylist(list(some), RAW))) if some else None
        epochs = epochs_in(decoded, {"streams": len(rows)}, dict)
        inputs = Inputs(decoded, of_events, epochs=epochs, topics=topics, has_streams=True)
        found = build(inputs, ("verdicts",))["verdicts"].toArrow().to_pylist()
    return next(row for row in found if row["group"] == "g")


def rules(row: dict[str, Any]) -> set[str]:
    return {claim["rule"] for claim in row["claims"]}


# ---- topics


def test_topics_that_are_not_ready_need_help() -> None:
    log = written().member("a").epoch(1, is_ready=False).has("a")
    row = verdict(until(log, 10), topics={"words", "more"})
    assert (row["level"], row["kind"]) == ("help", "topics_not_ready")
    assert row["verdict"] == (
        "its topics are not ready since 12:00:00, perhaps because the source topic lines is missing"
    )
    (claim,) = row["claims"]
    assert (claim["confidence"], claim["who"], claim["advice"]) == ("perhaps", ["lines"], "create lines")


def test_the_reason_is_that_of_an_event() -> None:
    log = written().member("a").epoch(1, is_ready=False).has("a")
    why = event("topics_not_ready", 0, detail="Source topics lines are missing.", code=1, topology_epoch=0)
    row = verdict(until(log, 10), why, topics={"words", "more"})
    assert row["verdict"] == "its topics are not ready since 12:00:00: Source topics lines are missing"
    assert row["claims"][0]["confidence"] == "certain"


def test_without_known_topics_no_topic_is_blamed() -> None:
    log = written().member("a").epoch(1, is_ready=False).has("a")
    assert verdict(until(log, 10))["verdict"] == "its topics are not ready since 12:00:00"
    # all topics are there, so their partition counts may be wrong
    assert verdict(until(log, 10), topics={"words", "lines"})["verdict"] == "its topics are not ready since 12:00:00"


def test_topics_that_become_ready_soon_are_no_trouble() -> None:
    log = written().member("a").epoch(1, is_ready=False).has("a")
    log.at(NOON + 3_000).epoch(2).has("a", active="0/0")
    assert verdict(until(log, 10), topics=set())["level"] == "fine"


def test_topics_that_were_not_ready_for_long_are_over() -> None:
    log = written().member("a").epoch(1, is_ready=False).has("a")
    log.at(NOON + 3 * MINUTE).epoch(2).has("a", active="0/0")
    row = verdict(until(log, 10), topics=set())
    assert (row["level"], row["verdict"]) == ("look", "its topics were not ready from 12:00:00 to 12:03:00")


def test_a_group_without_members_waits_for_nothing() -> None:
    log = written().member("a").epoch(1, is_ready=False).has("a")
    log.at(NOON + 5_000).gone("a").epoch(2, is_ready=False)
    assert "topics_not_ready" not in rules(verdict(until(log, 10), topics=set()))


# ---- the end of an application


MEMBER = {"member": "a", "instance": None, "client_id": "app-1-StreamThread-2-consumer", "host": "/h"}


def ended() -> Written:
    log = written().member("a").member("b").epoch(1).has("a", active="0/0").has("b", active="0/1")
    log.at(NOON + 2 * MINUTE).gone("a").epoch(2)
    return log.at(NOON + 2 * MINUTE + 500).gone("b").epoch(3)


def test_who_ended_the_application() -> None:
    row = verdict(until(ended(), 10), event("application_shutdown", 2, member=MEMBER))
    assert (row["level"], row["kind"]) == ("help", "application_ended")
    assert row["verdict"] == "app-1 had an error and ended the whole application at 12:02:00"


def test_an_application_that_was_started_again_needs_no_help() -> None:
    log = ended().at(NOON + 5 * MINUTE).member("c").epoch(4).has("c", active="0/0+1")
    row = verdict(until(log, 10), event("application_shutdown", 2, member=MEMBER))
    assert row["level"] == "look"
    assert row["verdict"].startswith("app-1 had an error and ended the whole application at 12:02:00; it was started")


def test_members_that_leave_together_had_no_error() -> None:
    assert "application_ended" not in rules(verdict(until(ended(), 10)))


# ---- tasks that bounce


def bounced(times: int, minutes: float = 1) -> Written:
    log = written().member("a").member("b").epoch(1).has("a", active="0/0+1").has("b", active="1/0")
    for number in range(times):
        log.at(NOON + round((number + 1) * minutes * MINUTE)).epoch(number + 2)
        gives, takes, rest = ("a", "b", "0/1") if number % 2 == 0 else ("b", "a", "1/0")
        log.has(gives, active=rest)
        log.at(log.now_ms + 500).has(takes, active=("1/0 0/0" if takes == "b" else "0/0+1"))
    return log


def test_a_task_that_goes_back_and_forth() -> None:
    row = verdict(until(bounced(5), 6))
    assert (row["level"], row["kind"]) == ("help", "tasks_bounce")
    assert row["verdict"].split(";")[0] == (
        "task 0_0 went back and forth between b and a 4 times since 12:01:00, and nobody had it for 2 s, though no "
        "member came or left"
    )


def test_a_task_that_moves_once_and_back_does_not_bounce() -> None:
    assert "tasks_bounce" not in rules(verdict(until(bounced(2), 6)))


def test_slow_changes_are_no_bouncing() -> None:
    assert "tasks_bounce" not in rules(verdict(until(bounced(5, minutes=11), 70)))


def test_members_that_come_and_go_explain_the_moves() -> None:
    log = written().member("a").epoch(1).has("a", active="0/0+1")
    epoch = 1
    for number in range(5):
        log.at(NOON + (2 * number + 1) * MINUTE).member(f"b{number}", process="b").epoch(epoch := epoch + 1)
        log.has("a", active="0/0")
        log.at(log.now_ms + 500).has(f"b{number}", active="0/1")
        log.at(NOON + (2 * number + 2) * MINUTE).epoch(epoch := epoch + 1).has(f"b{number}")
        log.at(log.now_ms + 500).has("a", active="0/0+1")
        log.at(log.now_ms + 500).gone(f"b{number}").epoch(epoch := epoch + 1).has("a", active="0/0+1")
    assert "tasks_bounce" not in rules(verdict(until(log, 12)))


# ---- warm-ups


def warmed() -> Written:
    log = written().member("app-1-StreamThread-1").member("b").epoch(1).has("app-1-StreamThread-1", active="0/0+1 1/0")
    return log.at(NOON + MINUTE).epoch(2).has("b", warmup="0/1", active="1/1").has(
        "app-1-StreamThread-1", active="0/0+1 1/0"
    )  # fmt: skip


def test_a_warm_up_that_does_not_end() -> None:
    row = verdict(until(warmed(), 25))
    assert (row["level"], row["kind"]) == ("help", "endless_warmup")
    assert row["verdict"] == "the warm-up of task 0_1 at b lasts for 24 min since 12:01:00, perhaps without an end"


def test_a_warm_up_that_lasts_for_some_minutes_is_usual() -> None:
    assert verdict(until(warmed(), 8))["level"] == "fine"


def test_a_warm_up_that_ended_is_no_trouble() -> None:
    log = warmed().at(NOON + 15 * MINUTE).epoch(3).has("app-1-StreamThread-1", active="0/0 1/0")
    log.at(log.now_ms + 500).has("b", active="0/1 1/1")
    assert "endless_warmup" not in rules(verdict(until(log, 40)))


# ---- one instance has all


def lonely(tasks: str = "0/0+1 1/0+1") -> Written:
    log = written().member("app-1-StreamThread-1", process="p").epoch(1).has("app-1-StreamThread-1", active=tasks)
    log.at(NOON + MINUTE).member("app-2-StreamThread-1", process="q").epoch(2)
    return log.has("app-2-StreamThread-1", standby="0/0+1").has("app-1-StreamThread-1", active=tasks)


def test_an_instance_that_has_all_tasks() -> None:
    row = verdict(until(lonely(), 20))
    assert (row["level"], row["kind"]) == ("help", "one_has_all_tasks")
    assert row["verdict"] == "app-1 has all 4 active tasks since 12:01:00; 1 other instance has none"


def test_a_new_instance_has_no_tasks_at_first() -> None:
    assert verdict(until(lonely(), 4))["level"] == "fine"


def test_a_single_task_cannot_be_shared() -> None:
    assert verdict(until(lonely("0/0"), 20))["level"] == "fine"


def test_threads_of_one_instance_are_one_instance() -> None:
    log = written().member("app-1-StreamThread-1", process="p").member("app-1-StreamThread-2", process="p").epoch(1)
    log.has("app-1-StreamThread-1", active="0/0+1").has("app-1-StreamThread-2")
    assert verdict(until(log, 20))["level"] == "fine"


def test_instances_that_share_the_tasks_are_fine() -> None:
    log = lonely().at(NOON + 2 * MINUTE).epoch(3).has("app-1-StreamThread-1", active="0/0+1")
    log.at(log.now_ms + 500).has("app-2-StreamThread-1", active="1/0+1")
    assert verdict(until(log, 20))["level"] == "fine"
