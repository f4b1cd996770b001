"""Histories of streams groups, and what the simulation detects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.streams import leave, reconcile
from muster.coordinator.groups.streams.group import StreamsGroup
from tests.simulation.__main__ import main
from tests.simulation.streams.run import STREAMS

SEEDS, EVENTS = 10, 200
FOUND_WITHIN = range(40)


def test_histories_of_streams_groups_keep_each_rule_and_reach_each_event() -> None:
    played = STREAMS.chunk(EVENTS, 0, SEEDS)
    assert not played.failures, played.failures[0]
    for what in ("crash", "lost", "repeated", "created", "deleted", "standby", "unrevoked", "unreleased"):
        assert played.counts[what], what
    for error in (0, 25, 82, 110, 111):
        assert played.counts[f"StreamsGroupHeartbeatRequest {error}"], error


def everything_is_free(patched: pytest.MonkeyPatch) -> None:
    """Tasks are given while another member has them."""
    patched.setattr(reconcile, "_holders", lambda *_: (lambda *_: set(),) * 3)


def nobody_revokes(patched: pytest.MonkeyPatch) -> None:
    """Tasks that a member has to give up count as free at once."""
    real = StreamsGroup.move_member

    def move(group: StreamsGroup, member: Any, position: Any) -> None:
        real(group, member, position)
        group.owners.remove(position.revoking, member.description.process_id)

    patched.setattr(StreamsGroup, "move_member", move)


def the_dead_stay(patched: pytest.MonkeyPatch) -> None:
    """A silent member keeps its tasks for ever."""
    real = leave._remove
    patched.setattr(leave, "_remove", lambda *args: None if args[-1] == events.SESSION_EXPIRED else real(*args))


@pytest.mark.parametrize(
    ("mutant", "words"),
    [
        (everything_is_free, "is of"),
        (nobody_revokes, "is of"),
        (the_dead_stay, "not owned in the end"),
    ],
)
def test_a_broken_rule_of_streams_groups_is_detected(
    mutant: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert STREAMS.first_failure(FOUND_WITHIN, words, EVENTS) is not None


def test_simulate_plays_histories_of_streams_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--streams", "--seeds", "2", "--events", "100", "--processes", "1"]) == 0
    assert "2 histories" in capsys.readouterr().out
