"""Real clients use three processes over one PostgreSQL. The processes stop, die, pause and return. The database cuts
connections, pauses, or starts again.

With `--standby` the database has a synchronous standby. It is cut off, sessions end that wait for it, and it takes the
place of the primary, which then begins again as its standby.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from muster.postgres import administration
from muster.postgres.store import Identity
from tests.e2e.test_cluster import end
from tests.e2e.workers import (
    LONG_S,
    PARTITIONS,
    RECONNECT_MS,
    WORKERS,
    Progress,
    Works,
    at_work,
    confluent_works,
    in_thread,
    quieten,
    tell,
)
from tests.support.cluster_nodes import ClusterNode
from tests.support.postgres import own_database, running_postgres
from tests.support.postgres_pair import Pair, running_pair
from tests.support.servers import QUICK, free_port_pair

LEASE_MS = 3_000
CHANGES = ("kill", "stop", "pause", "pause", "hang up", "still", "crash")
OF_STANDBY = ("cut off", "end waiting", "cancel waiting", "crash waiting", "promote", "promote", "promote")
"""Further faults, with a standby: the first ones prepare the last ones."""
OWN_REASONS = {
    "kafka-python": "after a cut connection it may never fetch again: after 15 s another consumer takes its place, "
    "which waits for the end of the old one's session (6 s)",
    "confluent-kafka": "after 10 s without a coordinator it joins as a new member, and the old one's session (10 s) "
    "must end before all go on",
    "next": "after 10 s without a coordinator it joins as a new member, and the old one keeps the partitions until its "
    "session (45 s) ends",
    "topics": "a request of its admin client waits for 5 to 10 s before it is asked again, also at a node that is down",
    "transactions": "commit_transaction waits for 10 s before it is asked again; the outcome of each end must be known",
}
"""Reasons why a client itself may stand still for longer than the cluster does."""
PATIENCE_S = 90.0
"""How long a client may make no progress, on a busy machine."""
FAULTS = re.compile(r"Traceback|because of a bug|Exception|Error\b.*exception|events cannot be written", re.IGNORECASE)
"""Lines that no node may log."""


def confluent_consumer_group_works(bootstrap: str, topic: str, group: str, progress: Progress) -> None:
    """Write numbers in order, read and commit them, by KIP-848."""
    confluent_works(bootstrap, topic, group, progress, protocol="consumer", settle=_until_done)


def _until_done(work: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            work()
        except confluent_kafka.KafkaException:
            if time.monotonic() > until:
                raise
        else:
            return


def transactions_work(bootstrap: str, topic: str, _: str, progress: Progress) -> None:
    """Write numbers in order, each to all partitions in one transaction, and abort every third transaction."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": RECONNECT_MS}
    settings |= {"topic.metadata.refresh.interval.ms": 1_000, "transaction.timeout.ms": 60_000}

    def begin() -> Any:
        producer = confluent_kafka.Producer({**settings, "transactional.id": topic}, logger=None)
        _until_done(lambda: producer.init_transactions(5))
        return producer

    producer, number = begin(), 0
    while not progress.stops.is_set() and not progress.gives_up.is_set():
        number += 1
        try:
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(topic, b"%d" % number, partition=partition)
            if number % 3 == 0:
                _again(producer.abort_transaction)
                continue
            progress.committed[number] = -1  # no node knows the topic yet
            _again(producer.commit_transaction)
        except confluent_kafka.KafkaException as failed:
            error = failed.args[0]
            if error.txn_requires_abort() and not error.fatal():
                progress.committed.pop(number, None)
                try:
                    _again(producer.abort_transaction)
                except confluent_kafka.KafkaException as worse:
                    # no coordinator knew of the transaction: librdkafka asks all the same to end it, and gets the
                    # answer, as on Kafka, that the transaction before it ended otherwise
                    if worse.args[0].code() != confluent_kafka.KafkaError.INVALID_TXN_STATE:
                        raise
                    producer = begin()
            else:
                progress.read.append(number)  # the error is reported at the end
                print("a producer that must begin anew:", error, flush=True)
                producer = begin()
        else:
            progress.committed[number] = 1
            progress.written.append(number)
            progress.goes_on()


def _again(work: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            work(10)
        except confluent_kafka.KafkaException as failed:
            if not failed.args[0].retriable() or time.monotonic() > until:
                raise
        else:
            return


def topics_come_and_go(bootstrap: str, _: str, __: str, progress: Progress) -> None:
    """Create topics at any node, let them grow at another node, write to them, and delete them."""
    draw, number = random.Random(1), 0
    while not progress.stops.is_set() and not progress.gives_up.is_set():
        number += 1
        name = f"short-{number}"
        for step in ("create", "grow", "delete"):
            until = time.monotonic() + PATIENCE_S
            while not progress.gives_up.is_set():
                one = draw.choice(bootstrap.split(","))
                admin = AdminClient({"bootstrap.servers": one, "log_level": 0}, logger=None)
                try:
                    if step == "create":
                        admin.create_topics([NewTopic(name, 2, 1)], request_timeout=5)[name].result(10)
                    elif step == "grow":
                        admin.create_partitions([NewPartitions(name, 4)], request_timeout=5)[name].result(10)
                    else:
                        admin.delete_topics([name], request_timeout=5)[name].result(10)
                    break
                except (confluent_kafka.KafkaException, TimeoutError) as failed:
                    code = failed.args[0].name() if isinstance(failed, confluent_kafka.KafkaException) else ""
                    if code in ("TOPIC_ALREADY_EXISTS", "INVALID_PARTITIONS") or (
                        step == "delete" and code in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC")
                    ):
                        break
                    if time.monotonic() > until:
                        raise
        progress.written.append(number)
        progress.goes_on()


ALL: dict[str, Works] = {
    **WORKERS,
    "next": lambda *all_: in_thread(confluent_consumer_group_works, *all_),
    "transactions": lambda *all_: in_thread(transactions_work, *all_),
    "topics": lambda *all_: in_thread(topics_come_and_go, *all_),
}
CHECKED = (*WORKERS, "next")


class Database:
    """The PostgreSQL of the cluster, and its faults."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def rows(self, what: str) -> list[Any]:
        connection = await asyncpg.connect(self.url)
        try:
            return list(await connection.fetch(what))
        finally:
            await connection.close()

    async def hang_up(self) -> None:
        """Cut the connections of all nodes."""
        await self.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )

    async def stand_still(self, seconds: float) -> None:
        """Stop all processes of the database for a time."""
        (row,) = await self.rows("SHOW data_directory")
        postmaster = int((Path(row[0]) / "postmaster.pid").read_text().split()[0])
        found = await self.rows("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        pids = [postmaster, *(one[0] for one in found)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    async def crash(self) -> None:
        """Let one process of the database die: all others end, and it recovers by its log."""
        found = await self.rows(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        if found:
            with suppress(ProcessLookupError):
                os.kill(found[0][0], signal.SIGKILL)


class WithStandby:
    """The faults of a database with a synchronous standby; see `postgres_pair.Pair`."""

    def __init__(self, pair: Pair, draw: random.Random) -> None:
        self._pair = pair
        self._draw = draw

    def change(self, what: str) -> None:
        """Cut the standby off for a time. Meanwhile sessions that wait for it end; perhaps it is promoted."""
        pair, draw = self._pair, self._draw
        pair.cut_off()
        pair.until_waiting()
        self._while_cut(0.3)
        ends = {"end waiting": pair.end_waiting, "cancel waiting": pair.cancel_waiting, "crash waiting": pair.crash}
        if what == "promote":
            for _ in range(draw.randrange(1, 4)):  # also sessions that wait then
                draw.choice(list(ends.values()))()
                self._while_cut(0.3)
            pair.fail_over()
            pair.begin_standby()
        else:
            ends.get(what, lambda: None)()
            self._while_cut(1.5)
            pair.reconnect()

    def _while_cut(self, leases: float) -> None:
        time.sleep(self._draw.random() * leases * LEASE_MS / 1000)


@contextmanager
def cluster(folder: Path, database: str) -> Iterator[list[ClusterNode]]:
    """Three nodes."""
    asyncio.run(administration.init(database, "muster", Identity("of-the-story", "AAAAAAAAAAAAAAAAAAAAAQ")))
    topics = [name for name in ALL if name != "topics"]
    with ExitStack() as ends:
        nodes = []
        for number in range(3):
            properties = {**QUICK, "offsets.topic.num.partitions": "6", "transaction.state.log.num.partitions": "3",
                          "broker.session.timeout.ms": str(LEASE_MS)}  # fmt: skip
            arguments = ["--cluster", database]
            for name in topics:
                arguments += ["--topic", f"{name}:{PARTITIONS}"]
            node = ClusterNode(folder / f"node-{number}", properties, arguments=arguments)
            node.bootstrap = f"127.0.0.1:{free_port_pair()}"
            node.start_timeout_s = PATIENCE_S
            nodes.append(node)
            ends.callback(end, node)
            node.begin()
            node.until_ready()
        yield nodes


class Story(NamedTuple):
    """The faults that were played. `changes`: when each fault began, and its name."""

    progress: dict[str, Progress]
    changes: list[tuple[float, str]]

    def report(self) -> None:
        """Print how long each client stood still, and the possible reasons."""
        tell(self.progress)
        for name, one in self.progress.items():
            for since, until in one.gaps:
                under = [what for at, what in self.changes if since - LONG_S < at < until]
                print(f"{name}: {until - since:.1f} s without progress, after {', '.join(under) or 'no change'}: "
                      f"{OWN_REASONS.get(name, 'NO REASON OF ITS OWN IS KNOWN')}", flush=True)  # fmt: skip


async def play(
    nodes: list[ClusterNode],
    database: Database,
    names: list[str],
    changes: int,
    seed: int,
    standby: WithStandby | None = None,
) -> Story:
    """Let the clients work under faults; each client has finished when this function returns."""
    draw = random.Random(seed)
    made: list[tuple[float, str]] = []
    bootstrap = ",".join(node.bootstrap for node in nodes)
    began = time.monotonic()
    async with at_work({name: ALL[name] for name in names}, bootstrap, PATIENCE_S, CHECKED) as work:
        for number in range(changes):
            began_s = time.monotonic()
            down = [node for node in nodes if not node.running]
            if down and draw.random() < 0.7:
                what = "return"
                node = draw.choice(down)
                node.begin()
                await asyncio.to_thread(node.until_ready)
            else:
                up = [one for one in nodes if one.running]
                node = draw.choice(up)
                what = draw.choice(CHANGES if standby is None else CHANGES + OF_STANDBY)
                if what in ("kill", "stop") and len(up) == 1:
                    what = "pause"
                if what == "kill":
                    await asyncio.to_thread(node.kill)
                elif what == "stop":
                    await asyncio.to_thread(node.stop)
                elif what == "pause":
                    node.signal(signal.SIGSTOP)
                    await asyncio.sleep(draw.random() * 2 * LEASE_MS / 1000)
                    node.signal(signal.SIGCONT)
                elif what == "hang up":
                    await database.hang_up()
                elif standby is not None and what in OF_STANDBY:
                    await asyncio.to_thread(standby.change, what)
                elif what == "still":
                    await database.stand_still(draw.random() * 1.5 * LEASE_MS / 1000)
                else:
                    await database.crash()
            made.append((began_s, f"{number} {what}"))
            took = await work.progressed()
            print(f"{time.monotonic() - began:6.1f} s: {number} {what} {nodes.index(node) + 1}: {took}", flush=True)
    return Story(work.progress, made)


def read_all(bootstrap: str, topic: str, isolation: str) -> list[list[int]]:
    """The numbers of each partition."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.partition.eof": True, "log_level": 0,
         "isolation.level": isolation}, logger=None
    )  # fmt: skip
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    ended: set[int] = set()
    until = time.monotonic() + PATIENCE_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < until, f"{topic} cannot be read: {ended}"
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                found[message.partition()].append(int(message.value()))
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return found


def check(nodes: list[ClusterNode], workers: dict[str, Progress]) -> None:
    """Each record that was acknowledged is there once, and the offsets are those that were last acknowledged."""
    bootstrap = ",".join(node.bootstrap for node in nodes)
    for name, progress in workers.items():
        if name == "transactions":
            for numbers in read_all(bootstrap, name, "read_committed"):
                assert sorted(numbers) == sorted(set(numbers)), f"{name}: twice"
                missing = {one for one, how in progress.committed.items() if how == 1} - set(numbers)
                assert not missing, f"{name}: lost {sorted(missing)[:5]}"
                wrong = set(numbers) - set(progress.committed)
                assert not wrong, f"{name}: aborted, but there: {sorted(wrong)[:5]}"
        elif name in CHECKED:
            found = [one for numbers in read_all(bootstrap, name, "read_uncommitted") for one in numbers]
            twice = {one for one in found if found.count(one) > 1} if len(found) != len(set(found)) else set()
            assert not twice, f"{name}: written twice: {sorted(twice)[:5]}"
            missing = set(progress.written) - set(found)
            assert not missing, f"{name}: lost {sorted(missing)[:5]}"
            kept = kept_offsets(bootstrap, name)
            assert kept == progress.committed, f"{name}: {kept} is there, {progress.committed} was acknowledged"
    for number, node in enumerate(nodes, 1):
        fault_lines = [line for line in node.log().splitlines() if FAULTS.search(line)]
        assert not fault_lines, f"node {number} has logged faults: {fault_lines[:5]}"


_MOVES = frozenset(
    (
        confluent_kafka.KafkaError.NOT_COORDINATOR,
        confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
        confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        confluent_kafka.KafkaError._TIMED_OUT,
    )
)
"""The errors with which a client asks again while a coordinator moves."""


def kept_offsets(bootstrap: str, group: str) -> dict[int, int]:
    """The committed offsets of a group; a node that has just returned may still take its coordinator back."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}, logger=None
    )
    asked = [confluent_kafka.TopicPartition(group, number) for number in range(PARTITIONS)]
    until = time.monotonic() + PATIENCE_S
    try:
        while True:
            try:
                return {one.partition: one.offset for one in consumer.committed(asked, timeout=10)}
            except confluent_kafka.KafkaException as failed:
                if failed.args[0].code() not in _MOVES or time.monotonic() > until:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()


@contextmanager
def some_database(seed: int, *, has_standby: bool) -> Iterator[tuple[str, WithStandby | None]]:
    """The URL of a database, and the faults of its standby."""
    if has_standby:
        with running_pair() as pair:
            yield pair.url, WithStandby(pair, random.Random(seed))
    else:
        with running_postgres() as server, own_database(server) as url:
            yield url, None


def main(changes: int, seed: int, folder: Path, names: list[str], *, has_standby: bool) -> None:
    """Play one story."""
    quieten()
    with some_database(seed, has_standby=has_standby) as (url, standby), cluster(folder, url) as nodes:
        story = asyncio.run(play(nodes, Database(url), names, changes, seed, standby))
        for node in nodes:
            if not node.running:
                node.begin()
                node.until_ready()
        check(nodes, story.progress)
    story.report()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--changes", type=int, default=100, help="stops, kills, pauses and returns")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--standby", action="store_true", help="the database has a synchronous standby")
    options.add_argument("--keep", type=Path, help="leave the nodes' logs there")
    options.add_argument("--clients", default=",".join(ALL), help="by commas")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as made:
        main(asked.changes, asked.seed, asked.keep or Path(made), asked.clients.split(","), has_standby=asked.standby)
