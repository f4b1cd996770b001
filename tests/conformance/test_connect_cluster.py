"""Story 17: three Kafka Connect workers use Muster as their only cluster; one is killed. `make conformance-connect`.

There are three file sources and three file sinks, each with a task. Numbers are written to files and topics all the
time: so the output of a task shows whether it works.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.assignors.connect.work import Task
from tests.conformance.connect_cluster import Cluster, Feeder, Seen, Worker, in_file, in_topic
from tests.e2e.conftest import create_topic, new_server
from tests.support.servers import QUICK, ServerProcess

DELAY_MS = 25_000
"""Longer than a worker takes to start on a busy machine."""
NAMES = [f"{kind}{number}" for kind in ("source", "sink") for number in range(3)]
WORK = {Task(name) for name in NAMES} | {Task(name, 0) for name in NAMES}


class Pipeline:
    """The cluster, its connectors, and the progress of each."""

    def __init__(self, workdir: Path, server: ServerProcess) -> None:
        self.workdir, self.server = workdir, server
        self.cluster = Cluster(
            workdir,
            server.address,
            3,
            scheduled_rebalance_max_delay_ms=str(DELAY_MS),
            consumer_auto_offset_reset="earliest",
        )
        for number in range(3):
            create_topic(server, f"to-file-{number}", 1)
            create_topic(server, f"from-file-{number}", 1)

    def start(self) -> None:
        self.feeder = Feeder(
            self.server.bootstrap,
            [self.workdir / f"in-{number}" for number in range(3)],
            [f"to-file-{number}" for number in range(3)],
        )
        self.cluster.start()
        package = "org.apache.kafka.connect.file"
        for number in range(3):
            self.cluster.configure(
                f"source{number}",
                {
                    "connector.class": f"{package}.FileStreamSourceConnector",
                    "file": str(self.workdir / f"in-{number}"),
                    "topic": f"from-file-{number}",
                    "tasks.max": "1",
                },
            )
            self.cluster.configure(
                f"sink{number}",
                {
                    "connector.class": f"{package}.FileStreamSinkConnector",
                    "file": str(self.workdir / f"out-{number}"),
                    "topics": f"to-file-{number}",
                    "tasks.max": "1",
                },
            )
        self.settled()

    def settled(self) -> dict[int, set[Task]]:
        """Wait until all tasks are distributed evenly to three workers, and work."""

        def even() -> bool:
            seen = self.cluster.seen()
            return seen is not None and not seen.delay_ms and sorted(map(len, seen.running.values())) == [4, 4, 4]

        self.cluster.wait(even, "connectors and tasks to be shared out evenly")
        self.all_work(set(NAMES))
        for name in NAMES:
            self.cluster.wait(
                lambda name=name: self.cluster.states(name) == {name: "RUNNING", f"{name}-0": "RUNNING"},
                f"{name} to run",
            )
        return self.cluster.running()

    def progress_of(self, name: str) -> int:
        """How much the task of a connector has written."""
        number = name[-1]
        if name.startswith("sink"):
            return len(in_file(self.workdir / f"out-{number}"))
        return len(in_topic(self.server.bootstrap, f"from-file-{number}"))

    def all_work(self, names: set[str]) -> None:
        """Wait until each of these tasks has written something more."""
        before = {name: self.progress_of(name) for name in names}
        self.cluster.wait(
            lambda: all(self.progress_of(name) > before[name] for name in names), f"{sorted(names)} to go on"
        )

    def close(self) -> None:
        self.cluster.close()


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    workdir = tmp_path_factory.mktemp("connect")
    server = new_server(workdir / "server", QUICK)
    server.start()
    pipeline = Pipeline(workdir, server)
    try:
        pipeline.start()
        yield pipeline
    finally:
        pipeline.feeder.close()
        pipeline.close()
        server.stop()


class Loss:
    """A worker that is not the leader is killed; the test watches the others from then on."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.cluster = pipeline, pipeline.cluster
        self.before = pipeline.settled()
        seen = self.cluster.seen()
        assert seen is not None
        self.victim = next(worker for worker in self.cluster.workers if worker.port != seen.leader)
        self.others = [worker for worker in self.cluster.workers if worker is not self.victim]
        self.lost = self.before[self.victim.port]
        self.logged = {worker.port: worker.log_end() for worker in self.others}
        self.victim.kill()
        self.cluster.wait(lambda: self.delayed(self.cluster.seen()), "the loss to be noticed")
        self.noticed_at = time.monotonic()

    def delayed(self, seen: Seen | None) -> bool:
        return seen is not None and self.victim.port not in seen.running and seen.delay_ms > 0

    def nothing_is_assigned_for_the_delay(self) -> float:
        """Watch until the lost tasks are assigned; the seconds from the loss until then."""
        mine = {worker.port: self.before[worker.port] for worker in self.others}

        def assigned() -> bool:
            seen = self.cluster.seen()
            if seen is None:
                return False
            running = set().union(*seen.running.values())
            if running == WORK:
                return True
            assert running == WORK - self.lost, "all of it is assigned at once, or nothing"
            assert {port: seen.running[port] for port in mine} == mine
            return False

        self.cluster.wait(assigned, "what was lost to be assigned")
        return time.monotonic() - self.noticed_at

    def the_others_never_stopped(self) -> None:
        seen = self.cluster.running()
        for worker in self.others:
            assert self.before[worker.port] <= seen[worker.port]
            assert worker.stopped_since(self.logged[worker.port]) == []

    def tasks_of(self, workers: list[Worker]) -> set[str]:
        return {item.connector for worker in workers for item in self.before[worker.port] if item.number == 0}


def test_a_worker_back_within_the_delay_gets_its_tasks_back(pipeline: Pipeline) -> None:
    loss = Loss(pipeline)
    silent = {name: pipeline.progress_of(name) for name in loss.tasks_of([loss.victim])}
    loss.victim.start()
    pipeline.all_work(loss.tasks_of(loss.others))
    pipeline.cluster.wait(lambda: loss.victim.port in pipeline.cluster.running(), "the worker to be back")
    seen = pipeline.cluster.seen()
    assert seen is not None
    assert seen.delay_ms > 0, "it was back in time"
    assert seen.running[loss.victim.port] == set()
    assert {name: pipeline.progress_of(name) for name in silent} == silent, "nobody runs what was lost"
    took_s = loss.nothing_is_assigned_for_the_delay()
    assert took_s > DELAY_MS / 1000 - 2
    assert pipeline.cluster.running() == loss.before
    loss.the_others_never_stopped()
    pipeline.all_work(set(NAMES))
    loss.the_others_never_stopped()


def test_the_tasks_of_a_lost_worker_move_to_the_others_after_the_delay(pipeline: Pipeline) -> None:
    loss = Loss(pipeline)
    silent = {name: pipeline.progress_of(name) for name in loss.tasks_of([loss.victim])}
    pipeline.all_work(loss.tasks_of(loss.others))
    assert {name: pipeline.progress_of(name) for name in silent} == silent, "nobody runs what was lost"
    took_s = loss.nothing_is_assigned_for_the_delay()
    assert took_s > DELAY_MS / 1000 - 2
    loss.the_others_never_stopped()
    assert sorted(map(len, pipeline.cluster.running().values())) == [6, 6]
    pipeline.all_work(set(NAMES))
    # a late worker gets its share back in two steps: revoked from the others, then assigned
    loss.victim.start()
    pipeline.settled()


def test_no_record_of_the_connectors_was_lost(pipeline: Pipeline) -> None:
    """Connect promises at-least-once here: a number may occur twice, and none may be missing."""
    count = pipeline.feeder.close()
    for number in range(3):
        wanted = set(range(count))
        pipeline.cluster.wait(
            lambda number=number: len(set(in_file(pipeline.workdir / f"out-{number}"))) == count, f"all of sink{number}"
        )
        assert set(in_file(pipeline.workdir / f"out-{number}")) == wanted
        pipeline.cluster.wait(
            lambda number=number: len(set(in_topic(pipeline.server.bootstrap, f"from-file-{number}"))) == count,
            f"all of source{number}",
        )
