"""What the broker logs of its epochs, as the truth of a recording."""

from __future__ import annotations

from tests.pipeline.scripted_epochs import epochs_truth

OLD, NEW = "Aold", "Bnew"
CLIENTS = {OLD: "a", NEW: "b", "c-1": "c"}


def summarized(*said: str) -> list[tuple[int, str | None, str | None]]:
    """Generation, cause and trigger, of lines that are a second apart."""
    log = [
        f"2026-11-23 03:44:{10 + n},838 INFO GroupMetadataManager [x] [GroupId g] {what}" for n, what in enumerate(said)
    ]
    lines = list(epochs_truth(log, CLIENTS, [], {"g": 2**53}))
    assert lines[-1]["kind"] == "unsure"
    return [
        (line["generation"], line["cause"], line["trigger"] and line["trigger"]["client_id"])
        for line in lines
        if line["kind"] == "rebalance"
    ]


def bumped(epoch: int) -> str:
    return f"Bumped group epoch to {epoch} with metadata hash 7."


def test_joins_and_removals_are_read_from_the_brokers_log() -> None:
    assert summarized(
        f"Member {OLD} joins the consumer group using the consumer protocol.",
        bumped(2),
        f"Member {NEW} joins the consumer group using the consumer protocol.",
        bumped(3),
        f"Member {OLD} fenced from the group because the member session expired.",
        bumped(4),
        f"Member {NEW} left the consumer group.",
        bumped(5),
        bumped(6),
    ) == [
        (2, "member_joined", "a"), (3, "member_joined", "b"), (4, "session_expired", "a"), (5, "member_left", "b"),
        (6, "partitions_changed", None),
    ]  # fmt: skip


def test_a_classic_member_that_joins_again_is_no_new_member() -> None:
    again = "Member c-1 joins the consumer group using the classic protocol."
    created = (
        "Dynamic member with unknown member id joins the consumer group. Created a new member id c-1 and requesting "
    )
    assert summarized(again, f"Member {OLD} fenced from the group because the member session expired.", bumped(4)) == [
        (4, "session_expired", "a")
    ]
    assert summarized(f"{created}the member to rejoin with this id.", again, bumped(4)) == [(4, "member_joined", "c")]


def test_an_epoch_written_at_a_second_try_is_one_epoch() -> None:
    joins = f"Member {OLD} joins the consumer group using the consumer protocol."
    assert summarized(joins, bumped(8), joins, bumped(8)) == [(8, "member_joined", "a")]
