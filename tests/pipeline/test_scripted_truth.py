from __future__ import annotations

from datetime import datetime

from tests.pipeline.scripted_truth import Action, truth

UUID = "03e3061e-66f2-417d-94e4-978aa64799b5"
BEGAN = "Preparing to rebalance group g in state PreparingRebalance with old generation"
SYNCED = "Assignment received from leader a for group g for generation"
NO_REASON = "client reason: not provided"
LEADER = f"Leader a-{UUID} re-joining group during Stable"


def summarized(*said: str, actions: list[Action] | None = None) -> list[tuple[int, str, str]]:
    """Generation, cause and trigger, of lines that are a second apart; `?`: unsure."""
    log = [f"2026-11-21 23:42:{10 + n},500 INFO GroupMetadataManager {text}" for n, text in enumerate(said)]
    return [
        (line["generation"], line["cause"], line["trigger"]["client_id"])
        if line["kind"] == "rebalance"
        else (line["first"], "?", "until the end" if line["last"] is None else "")
        for line in truth(log, actions or [], {"g": 2**53})
    ]


def done(cause: str, client_id: str | None = "a", seconds_before: int = 1) -> Action:
    first = datetime(2026, 11, 21, 23, 42, 10, 500_000).astimezone()
    return Action(round(first.timestamp() - seconds_before) * 1000, "g", cause, client_id)


JOINED = [
    f"2026-11-21 23:42:10,500 {BEGAN} 0 (reason: Adding new member a-{UUID} with group instance id null; {NO_REASON}).",
    f"2026-11-21 23:42:10,500 {SYNCED} 1. The group has 1 members, 0 of which are static.",
    "a line of a stack trace",
]


def test_joins_and_leaves_are_read_from_the_brokers_log() -> None:
    assert summarized(
        f"{BEGAN} 0 (reason: Adding new member a-{UUID} with group instance id null; {NO_REASON}).",
        f"{SYNCED} 1. The group has 1 members, 0 of which are static.",
        f"{BEGAN} 1 (reason: explicit `LeaveGroup` request for (b-{UUID}) members.).",
        f"{SYNCED} 2. The group has 1 members, 0 of which are static.",
        f"{BEGAN} 2 (reason: removing member a-{UUID} on heartbeat expiration.).",
        "Group g with generation 3 is now empty.",
    ) == [(1, "member_joined", "a"), (2, "member_left", "b"), (3, "session_expired", "a"), (4, "?", "until the end")]


def test_the_cause_that_overtakes_an_attempt_counts() -> None:
    assert summarized(
        f"{BEGAN} 1 (reason: removing member b-{UUID} on heartbeat expiration.).",
        f"{BEGAN} 2 (reason: Adding new member c-{UUID} with group instance id null; {NO_REASON}).",
        f"{SYNCED} 3. The group has 2 members, 0 of which are static.",
    ) == [(3, "member_joined", "c"), (4, "?", "until the end")]


def test_the_reason_of_a_rejoin_is_read() -> None:
    said = f"{BEGAN} 1 (reason: {LEADER}; {NO_REASON}).", f"{SYNCED} 2. The group"
    assert summarized(*said)[0] == (2, "?", "")
    assert summarized(*said, actions=[done("subscription_changed")])[0] == (2, "subscription_changed", "a")
    assert summarized(*said, actions=[done("partitions_changed", None)])[0] == (2, "partitions_changed", "a")
    assert summarized(*said, actions=[done("subscription_changed", "b")])[0] == (2, "?", "")
    assert summarized(*said, actions=[done("leader_rejoined", seconds_before=60)])[0] == (2, "?", "")


def test_the_second_round_of_a_cooperative_rebalance_is_recognized() -> None:
    revoked = f"{BEGAN} 1 (reason: {LEADER}; client reason: need to revoke partitions and re-join)."
    assert summarized(revoked, f"{SYNCED} 2. The")[0] == (2, "metadata_changed", "a")
    other = f"{BEGAN} 1 (reason: Updating metadata for member b-{UUID} during Stable; {NO_REASON})."
    assert summarized(other, f"{SYNCED} 2. The")[0] == (2, "metadata_changed", "b")


def test_events_after_the_end_are_ignored() -> None:
    assert list(truth(JOINED, [], {"g": 0})) == [{"kind": "unsure", "group": "g", "first": 1, "last": None}]
