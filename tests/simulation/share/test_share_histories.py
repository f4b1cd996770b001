"""Histories of share groups, and what the simulation detects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.coordinator.runtime.share_partitions import led_partition
from muster.coordinator.runtime.share_partitions.led_partition import LedSharePartition
from muster.coordinator.share.acknowledge import _Acknowledging
from muster.coordinator.share.in_flight import RELEASE
from muster.coordinator.share.partition import SharePartition
from tests.simulation.__main__ import main
from tests.simulation.share.run import SHARES

SEEDS, EVENTS = 10, 250
FOUND_WITHIN = range(40)


def test_histories_of_share_groups_keep_each_rule_and_reach_each_event() -> None:
    played = SHARES.chunk(EVENTS, 0, SEEDS)
    assert not played.failures, played.failures[0]
    for what in (
        "answer lost",
        "failed write",
        "failed write that was made",
        "node died",
        "locks ended",
        "record named twice",
    ):
        assert played.counts[what], what
    assert played.counts["acknowledged"] > SEEDS


def locks_are_short(patched: pytest.MonkeyPatch) -> None:
    """Locks end too early."""
    real = led_partition.acquire
    patched.setattr(led_partition, "acquire", lambda *args: real(*args[:-1], args[-1] - 9_000))


def deliveries_have_no_limit(patched: pytest.MonkeyPatch) -> None:
    """Records are released however often they were delivered."""
    patched.setattr(SharePartition, "release_event", lambda *_: RELEASE)


def answers_do_not_wait(patched: pytest.MonkeyPatch) -> None:
    """Acknowledgements are answered before they are durable."""
    real = LedSharePartition.acknowledge

    def acknowledge(share: LedSharePartition, member: str, some: Any, done: Any) -> Any:
        answers: list[Any] = []
        write = real(share, member, some, answers.append)

        def write_and_answer() -> None:
            write()
            done(answers[0] if answers else None)

        return write_and_answer

    patched.setattr(LedSharePartition, "acknowledge", acknowledge)


def refusals_leave_changes(patched: pytest.MonkeyPatch) -> None:
    """A refused acknowledgement leaves what it has changed before."""
    patched.setattr(_Acknowledging, "undo", lambda _: None)


@pytest.mark.parametrize(
    ("mutant", "words"),
    [
        (locks_are_short, "too"),
        (deliveries_have_no_limit, "times"),
        (answers_do_not_wait, "although it was acknowledged"),
        (refusals_leave_changes, "lost"),
    ],
)
def test_a_broken_rule_of_share_groups_is_detected(
    mutant: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert SHARES.first_failure(FOUND_WITHIN, words, EVENTS) is not None


def test_simulate_plays_histories_of_share_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--share", "--seeds", "2", "--events", "100", "--processes", "1"]) == 0
    assert "2 histories" in capsys.readouterr().out
