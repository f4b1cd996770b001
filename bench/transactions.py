"""Measures what transactions cost a server, from the first record to the end, and what it costs to read them.

`python -m bench.transactions` prints only these figures, of Muster and, if Java is installed, Kafka.
"""

from __future__ import annotations

import argparse
import itertools
import json
import socket
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from bench.load import records
from bench.load import transactions as load
from bench.load.frameload import FrameLoad, Load
from bench.scenarios import FOUR_KB, Figures, Target, must_carry, of_load
from muster.protocol.errors import ErrorCode
from tests.support.servers import KafkaServer, MusterServer, ServerProcess, kafka_available

CONNECTIONS: Final = 100
IDS_EACH: Final = 10
"""Each connection uses this many producers in turn, so that a producer's last transaction has ended before its next."""
TOPIC, PARTITIONS = "txns", 10
RETRY: Final = f"{ErrorCode.CONCURRENT_TRANSACTIONS:d}:20"
"""The error after which the load generator sends a request again, and how often: the last transaction is still
ending.
"""
MEASURED: Final = 4_000
"""How many transactions one load has."""
SLACK, SPARE = 1.5, 20
"""A connection has `SLACK` times the transactions ready that it needs on average, and `SPARE` more."""
READ_PARTITIONS: Final = 4
READ_IDS_EACH: Final = 20
READ_TRANSACTIONS: Final = 400
"""How many transactions are read from each partition."""
ABORTED: Final = {"no": 0, "some": 10, "many": 2}
"""Of this many read transactions, one is aborted; 0: no transaction is aborted."""
READS: Final = {
    f"fetch, {size} answers, {name} transactions aborted": (max_bytes, name)
    for max_bytes, size in ((4_096, "4 KB"), (262_144, "256 KB"))
    for name in ABORTED
}
"""The figures of fetches, each with the most bytes of an answer, and a key of `ABORTED`."""
NAMES: Final = {
    2: "a transaction of ten records and an offset commit",
    1: "the same in transaction version 1 (five requests)",
}
REQUESTS: Final = {2: 3, 1: 5}
"""How many requests a transaction has, by its version."""
WHERE: Final = ("page cache", "synced")


def committed(target: Target, *, version: int, count: int = MEASURED) -> Load:
    """Measure transactions of ten records and an offset commit. Each connection has one unanswered request."""
    connections = CONNECTIONS
    producers = _producers(target, connections * IDS_EACH)
    rows = []
    for number in range(connections):
        own = producers[number * IDS_EACH : (number + 1) * IDS_EACH]
        place = load.Place(TOPIC, number % PARTITIONS, f"commit-{number}")
        each = int(count / connections * SLACK) + SPARE
        rows.append(
            [
                frame
                for at in range(each)
                for frame in load.transaction(own[at % IDS_EACH], place, at // IDS_EACH, version=version)
            ]
        )
    frames = itertools.chain.from_iterable(zip(*rows, strict=True))
    return target.load(
        list(frames),
        connections=connections,
        error_at=load.error_positions(TOPIC, version=version),
        requests=count * REQUESTS[version],
        seconds=120,
        retry=RETRY,
    )


def _producers(target: Target, count: int) -> list[load.Producer]:
    serial = next(target.serial)
    with socket.create_connection(target.server.address, timeout=60) as connection:
        return [load.connect(connection, f"bench-{serial}-{number}") for number in range(count)]


def of_transactions(where: str, measured: Load, *, version: int) -> Figures:
    """The server's CPU time for a transaction, and the wall time for each transaction."""
    return of_load(f"{NAMES[version]}, {where}", measured, count=measured.requests / REQUESTS[version])


def figures(target: Target, wheres: Iterable[str]) -> Figures:
    """Measure transactions on this server. The result is recorded for each of `wheres`: Kafka has the same in both
    rows.
    """
    found: Figures = {}
    for version in NAMES:
        measured = committed(target, version=version)
        for where in wheres:
            found |= of_transactions(where, measured, version=version)
    return found


def prepare(target: Target) -> None:
    """Create topics, and write transactions that will be read. More transactions are prepared than sent, since a fast
    connection that runs out would begin again, with old epochs.
    """
    target.create_topic(TOPIC, PARTITIONS)
    value = bytes(FOUR_KB - 200)
    for name, one_in in ABORTED.items():
        topic = f"read-{name}"
        target.create_topic(topic, READ_PARTITIONS)
        producers = _producers(target, READ_PARTITIONS * READ_IDS_EACH)
        rows = []
        for partition in range(READ_PARTITIONS):
            own = producers[partition * READ_IDS_EACH : (partition + 1) * READ_IDS_EACH]
            place = load.Place(topic, partition, None)
            rows.append(
                [
                    frame
                    for at in range(int(READ_TRANSACTIONS * SLACK) + SPARE)
                    for frame in load.transaction(
                        own[at % READ_IDS_EACH], place, at // READ_IDS_EACH, version=2, values=[value],
                        commits=not one_in or bool(at % one_in),
                    )
                ]
            )  # fmt: skip
        frames = list(itertools.chain.from_iterable(zip(*rows, strict=True)))
        produce_at, _, end_at = load.error_positions(topic, version=2)
        target.load(
            frames,
            connections=READ_PARTITIONS,
            error_at=[produce_at, end_at],
            requests=READ_PARTITIONS * READ_TRANSACTIONS * 2,
            seconds=120,
            warm=0,
            retry=RETRY,
        )


def reads(target: Target) -> Iterable[tuple[str, float]]:
    """Measure the same fetches, read_uncommitted and read_committed. The figure is the ratio of their costs."""
    for figure, (max_bytes, name) in READS.items():
        offsets = range(0, READ_TRANSACTIONS, 2)  # a transaction takes two offsets: a record and a marker
        spent = {}
        for is_committed in (False, True):
            frames = records.fetch_frames(
                f"read-{name}", READ_PARTITIONS, offsets, max_bytes, read_committed=is_committed
            )
            measured = target.load(frames, connections=20, answer_bytes=1 << 19)
            must_carry(measured, FOUR_KB - 200)
            spent[is_committed] = measured.cpu_us_per_request
        yield f"{figure}, read_committed, x read_uncommitted", spent[True] / spent[False]


def warm_up(target: Target) -> None:
    """Warm up a server. A JVM needs much of it, other servers little: Kafka still got a third faster after 20,000."""
    for version in NAMES:
        committed(target, version=version, count=60_000 if target.server.name == "kafka" else 1_000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.transactions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", nargs="*", default=[], help="kafka, page-cache, synced, by name")
    parser.add_argument("--without-reads", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        workdir = Path(folder)
        servers: dict[str, ServerProcess] = {
            "page-cache": MusterServer(workdir / "page-cache", {"muster.offsets.durability": "os"}),
            "synced": MusterServer(workdir / "synced", {}),
        }
        if kafka_available():
            servers["kafka"] = KafkaServer(workdir / "kafka", {})
        servers = {name: one for name, one in servers.items() if not options.only or name in options.only}
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        frameload = FrameLoad(workdir)
        targets: dict[str, Target] = {}
        try:
            for name, server in servers.items():
                server.start()
                target = targets[name] = Target(server, frameload, options.seconds)
                target.prepare_commits()
                prepare(target)
                warm_up(target)
            for _ in range(options.rounds):
                for name, target in targets.items():
                    some = figures(target, WHERE[:1])
                    if not options.without_reads:
                        some |= dict(reads(target))
                    for row, value in some.items():
                        found[row][name].append(value)
        finally:
            for server in servers.values():
                if server.running:
                    server.stop()
    medians: Mapping[str, Mapping[str, float]] = {
        row: {name: statistics.median(values) for name, values in by_server.items()} for row, by_server in found.items()
    }
    print(json.dumps(medians, indent=2))


if __name__ == "__main__":
    main()
