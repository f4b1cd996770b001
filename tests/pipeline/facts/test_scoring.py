"""The inference held against what really happened: on a sample that tells it itself, and on the log of a real Kafka
whose groups a script drove (`tests.pipeline.scripted`: Kafka 4.3, aiokafka, sessions of 6 and 10 s, auto-commit and
commits by hand every 0.5 to 5 s).
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.coordinator.sample.writing import TRUTH_FILE, Wanted, write
from muster.pipeline.facts.inferred import inferred
from muster.pipeline.facts.told import told
from tests.pipeline.scoring import NAMED, One, Score, of_table, of_truth, read, score

LOG = Path(__file__).with_name("data") / "kafka-4.3-scripted.tar.xz"


def good(found: Score) -> bool:
    """What is demanded of the inference."""
    assert set(NAMED) <= set(found.by_cause), found.text()
    return (
        min(found.precision, found.recall) >= 0.95
        and found.cause >= 0.9
        and found.mean_over_causes >= 0.8
        and found.trigger >= 0.9
    )


def test_a_sample_by_its_events(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "sample", Wanted(groups=30, hours=6, seed=4))
    inputs = read(spark, tmp_path / "sample")
    assert inputs.events is not None
    found, true = of_table(inferred(inputs)), of_table(told(inputs.events))
    result = score(true, found)
    assert good(result), result.text()
    # the events are right themselves
    meant = score(of_truth(tmp_path / "sample" / TRUTH_FILE, dict(true)), true)
    assert (meant.precision, meant.recall, meant.cause, meant.trigger) == (1, 1, 1, 1), meant.text()


def test_a_real_kafka(spark: SparkSession, tmp_path: Path) -> None:
    with tarfile.open(LOG) as archive:
        archive.extractall(tmp_path, filter="data")
    inputs = read(spark, tmp_path)
    assert inputs.events is None
    found = of_table(inferred(inputs))
    result = score(of_truth(tmp_path / "truth.jsonl", found), found)
    assert result.rows > 150
    assert good(result), result.text()


def test_what_a_score_counts() -> None:
    true = {("g", 1, 0): One("member_joined", "a"), ("g", 2, 0): One("member_left", "a"), ("g", 3, 0): One("x", "a")}
    found = {("g", 1, 0): One("member_joined", "a"), ("g", 2, 0): One("session_expired", "b")}
    result = score(true, found | {("h", 1, 0): One("member_joined", "a"), ("h", 2, 0): One("member_joined", "a")})
    assert (result.precision, result.rows) == (0.5, 3)
    assert result.recall == pytest.approx(2 / 3)
    assert (result.cause, result.mean_over_causes, result.trigger) == (0.5, 0.5, 0.5)
    assert "member_left              taken for session_expired" in result.text()
