"""The inference compared with what really happened: on a sample with a known history, and on logs of a real Kafka 4.3
whose groups a script drove.

The first log is of `tests.pipeline.scripted`: aiokafka, sessions of 6 and 10 s, auto-commit and commits by hand every
0.5 to 5 s. The second is of `tests.pipeline.scripted_processes`: librdkafka, Java and kafka-python, sessions of 6 and
15 s, mostly cooperative, commits every 1 and 5 s; one group has nothing to commit.

The third has what these do not have. Its sessions are 45 s; commits come after each batch, only when partitions are
given up, or never. Topics are idle. Several members die at once, or while the group rebalances. Consumers hang or
unsubscribe; there are a classic Kafka Streams and a restart of the broker. Of some groups nothing can be found: those
of KIP-848, share and streams groups, and consumers that only commit. The partitions of each log have other numbers, so
that all are read at once.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from muster.pipeline.tables.event_rebalances import rebalance_rows
from muster.simulation.sample.writing import TRUTH_FILE, Wanted, write
from tests.pipeline.engines import Engine
from tests.pipeline.scoring import NAMED, One, Score, inferred_of, of_table, of_truth, read, score

LOGS = {
    "truth.jsonl": "kafka-4.3-scripted.tar.xz",
    "truth-clients.jsonl": "kafka-4.3-clients.tar.xz",
    "truth-habits.jsonl": "kafka-4.3-habits.tar.xz",
}
"""The archives, by the truths in them."""


def good(found: Score, trigger: float = 0.9) -> bool:
    """Check that the inference is good enough."""
    assert set(NAMED) <= set(found.by_cause), found.text()
    return (
        min(found.precision, found.recall) >= 0.95
        and found.cause >= 0.9
        and found.mean_over_causes >= 0.8
        and found.trigger >= trigger
    )


def test_the_events_of_a_sample_give_its_known_truth(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "sample", Wanted(groups=30, hours=6, seed=4))
    inputs = read(engine, tmp_path / "sample")
    assert inputs.events is not None
    found, true = of_table(inferred_of(inputs)), of_table(rebalance_rows(inputs.events))
    result = score(true, found)
    assert good(result), result.text()
    # the events themselves are right
    meant = score(of_truth(tmp_path / "sample" / TRUTH_FILE, dict(true)), true)
    assert (meant.precision, meant.recall, meant.cause, meant.trigger) == (1, 1, 1, 1), meant.text()


def test_the_inference_scores_well_on_logs_of_a_real_kafka(engine: Engine, tmp_path: Path) -> None:
    for archive in LOGS.values():
        with tarfile.open(Path(__file__).with_name("data") / archive) as files:
            files.extractall(tmp_path, filter="data")
    inputs = read(engine, tmp_path)
    assert inputs.events is None
    found = of_table(inferred_of(inputs))
    known = set()
    for truth in LOGS:
        lines = (tmp_path / truth).read_text(encoding="utf-8").splitlines()
        groups = {json.loads(line).get("group") for line in lines}
        known |= groups
        of_run = {key: one for key, one in found.items() if key[0] in groups}
        result = score(of_truth(tmp_path / truth, of_run), of_run)
        assert result.rows > 150
        # if several members joined or left, nothing says who was first
        assert good(result, trigger=0.9 if truth == "truth.jsonl" else 0.8), result.text()
    # nothing is reported of any other group
    assert {key[0] for key in found} <= known


def test_the_score_counts_right_and_wrong_rows() -> None:
    true = {("g", 1, 0): One("member_joined", "a"), ("g", 2, 0): One("member_left", "a"), ("g", 3, 0): One("x", "a")}
    found = {("g", 1, 0): One("member_joined", "a"), ("g", 2, 0): One("session_expired", "b")}
    result = score(true, found | {("h", 1, 0): One("member_joined", "a"), ("h", 2, 0): One("member_joined", "a")})
    assert (result.precision, result.rows) == (0.5, 3)
    assert result.recall == pytest.approx(2 / 3)
    assert (result.cause, result.mean_over_causes, result.trigger) == (0.5, 0.5, 0.5)
    assert "member_left              taken for session_expired" in result.text()
