"""Connect's own assignors and ours on the same histories of groups: every byte, delay and owner the same.

Run as a program it writes the frozen sample that `make test` reads: python -m tests.conformance.test_connect_assignors
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from pathlib import Path

from tests.assignors.connect.histories import Answer, History, draw
from tests.assignors.connect.test_histories import SAMPLE
from tests.support.servers import CONNECT_VERSION, kafka_jars

HERE = Path(__file__).parent
PROGRAM = "org.apache.kafka.connect.runtime.distributed.ConnectAssignors"
HISTORIES = 2_500
FROZEN = 80


def on_java(histories: list[History]) -> list[list[Answer]]:
    """The answers of the Java classes."""
    jars = kafka_jars(CONNECT_VERSION)
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, HERE / "ConnectAssignors.java"], check=True)
        quiet = f"-Dlog4j2.configurationFile={HERE.parent / 'kafka' / 'log4j2-quiet.xml'}"
        run = subprocess.run(
            ["java", "-Xmx256M", "-cp", f"{classes}:{jars}/*", quiet, PROGRAM],
            input="".join(json.dumps(history) + "\n" for history in histories),
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_random_histories_get_the_assignments_of_connect() -> None:
    drawn = [draw(seed) for seed in range(HISTORIES)]
    java = on_java([history for history, _ in drawn])
    assert len(java) == HISTORIES
    for seed, ((_, ours), theirs) in enumerate(zip(drawn, java, strict=True)):
        for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            assert our == their, f"history {seed}, round {number}"
    rounds = [answer for answers in java for answer in answers]
    assert len(rounds) > 10_000
    assert sum(answer["delay_ms"] > 0 for answer in rounds) > 1_000


def freeze() -> None:
    """Write the sample: histories and the answers of Java."""
    histories = [draw(1_000_000 + seed)[0] for seed in range(FROZEN)]
    with SAMPLE.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as out:
        for history, answers in zip(histories, on_java(histories), strict=True):
            out.write(json.dumps({"history": history, "java": answers}, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    freeze()
