"""Some histories of a thousand events or more (`make simulate` plays more of them), and the report of a failure."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.mutants import MUTANTS
from tests.simulation.playing import EVENTS, Failure
from tests.simulation.run import GROUPS

SEEDS = 320
DIGEST = """
import hashlib
from tests.simulation.run import GROUPS, brief
digest = hashlib.sha256()
for seed in range(5):
    for number, ms, what, call, detail in GROUPS.simulate(seed).world.trace:
        digest.update(f"{number} {ms} {what} {'' if call is None else brief(call.request)} {brief(detail)}".encode())
print(digest.hexdigest())
"""


def test_histories_of_groups_keep_each_rule() -> None:
    part = SEEDS // 8
    # a fresh process has no threads and no event loop that a fork could hurt
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
        played = list(pool.map(partial(GROUPS.chunk, EVENTS), range(0, SEEDS, part), [part] * 8))
    failures = [text for one in played for text in one.failures]
    assert not failures, f"{len(failures)} of {SEEDS} seeds failed\n{failures[0]}"
    assert sum(one.counts["events"] for one in played) >= SEEDS * EVENTS


def test_a_seed_gives_the_same_history_in_each_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


def test_a_history_has_at_least_the_wanted_number_of_events() -> None:
    assert all(GROUPS.simulate(seed, 300).world.events >= 300 for seed in range(20))


def test_histories_of_groups_reach_each_event() -> None:
    happened: Counter[str] = Counter()
    errors: dict[str, set[int]] = defaultdict(set)
    for seed in range(100):
        for _, _, what, call, detail in GROUPS.simulate(seed).world.trace:
            happened[what] += 1
            if what == "<-":
                errors[type(call.request).__name__].add(getattr(detail, "error_code", 0))
    assert errors["JoinGroupRequest"] >= {-1, 0, 16, 23, 25, 26, 27, 79, 81, 82}
    assert errors["SyncGroupRequest"] >= {0, 16, 22, 25, 27, 82}
    assert errors["HeartbeatRequest"] >= {0, 22, 25, 27, 82}
    for what in ("crash", "resign", "loaded", "killed", "paused", "zombie", "second process", "connected anew", "time"):
        assert happened[what] > 2, what


def test_a_failure_can_be_played_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    MUTANTS["no_barrier"][1](monkeypatch)
    failure = GROUPS.first_failure(range(60), "Barrier")
    assert failure is not None
    assert f"--seeds 1 --start {failure.seed} --events {EVENTS}" in failure.text
    assert len(failure.text.splitlines()) > 10
    with pytest.raises(Failure) as again:
        GROUPS.simulate(failure.seed)
    assert str(again.value) == failure.text
    assert GROUPS.chunk(EVENTS, failure.seed, 1) == (Counter(histories=1), [failure.text])


def test_simulate_plays_and_counts_histories(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--start", "7", "--events", "200", "--processes", "1"]) == 0
    assert "3 histories" in capsys.readouterr().out
