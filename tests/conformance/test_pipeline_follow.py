"""Followers of a running Muster and of a real Kafka. They are killed again and again while groups rebalance and commit,
and then end in order. Their tables equal an analysis of the same log.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from muster.pipeline.follow.store import saved
from muster.pipeline.wanted import ALL
from tests.pipeline.conftest import spark
from tests.pipeline.follow.test_run import QUICK_TO_START, analysed, manifest_of, rows_of
from tests.pipeline.live import TOPIC, Live
from tests.support.servers import QUICK, KafkaServer, MusterServer, ServerProcess

__all__ = ["spark"]
KILLS = 3
SEED = 7


@pytest.fixture(params=[MusterServer, KafkaServer], ids=["muster", "kafka"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    server: ServerProcess = request.param(tmp_path / "server", QUICK)
    server.start()
    try:
        yield Live({"bootstrap.servers": server.bootstrap})
    finally:
        server.stop()


class Busy:
    """Commits, and lets consumers join and leave, until it is ended."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Busy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        number = 0
        while not self._ended.is_set():
            self._live.commit(f"simple-{number % 5}", 2)
            consumer = Consumer({**self._live.client, "group.id": f"members-{number % 3}", "log_level": "0"})
            consumer.subscribe([TOPIC])
            while not consumer.assignment() and not self._ended.is_set():
                consumer.poll(0.1)
            consumer.close()
            number += 1
            self._ended.wait(0.3)


def follower(live: Live, out: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "muster.cli", "analyze", "--bootstrap-server", live.bootstrap]
    command += ["--follow", "--trigger", "300ms", "--out", str(out), "--master", "local[2]", "--keep", "all", *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **QUICK_TO_START}
    )


def wait_for(child: subprocess.Popen[bytes], is_enough: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not is_enough():
        assert child.poll() is None, child.communicate()
        pause.wait(0.05)


@pytest.mark.timeout(2400)
def test_a_follower_killed_repeatedly_leaves_the_tables_of_an_analysis(
    running: Live, spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    out = tmp_path / "out"
    # the follower waits while a cluster has no group
    child = follower(running, out)
    wait_for(child, (out / ".follow" / "manifest.json").exists)
    running.create(TOPIC, 4)
    with Busy(running):
        for _ in range(KILLS):
            before = manifest_of(out)
            more = chance.randrange(1, 4)
            if chance.random() < 0.5:
                wait_for(child, lambda before=before, more=more: manifest_of(out).batch >= before.batch + more)
            else:
                wait_for(child, lambda before=before: manifest_of(out).version > before.version)
            child.kill()
            child.communicate()
            child = follower(running, out)
        before = manifest_of(out)
        wait_for(child, lambda: manifest_of(out).version > before.version)
    child.send_signal(signal.SIGTERM)
    reported, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors.decode()[-2000:]
    assert f"tables: {out}/tables" in reported.decode()
    once = follower(running, out, "--once")
    _, errors = once.communicate(timeout=300)
    assert once.returncode == 0, errors.decode()[-2000:]
    assert (out / "report.html").stat().st_size > 1_000
    tables = saved(spark, str(out))
    for name, rows in analysed(spark, running, tmp_path / "stage", ALL).items():
        assert rows_of(name, tables[name]) == rows, name
