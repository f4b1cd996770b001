"""Random histories on a real Kafka and on Muster, compared reply by reply: `make conformance-random`.

    make conformance-random ARGS='--seed 7 --steps 10000' make conformance-random-consumers
    histories of consumer groups (KIP-848) and mixed ones make conformance-random-transactions
    histories of transactions make conformance-random ARGS='--nodes 3'              three brokers of Kafka, and of one
    process; also --cluster python -m tests.stories.random --only 700012          one history again, by its number

Several brokers share groups, transactions and partitions. Histories of transactions are then played while coordinators
and leaders move on both clusters.

Starts the servers (Java 17+ and Maven are needed), plays histories on both at the same time, many groups side by side,
and stops them. A difference is played again, shrunk, and printed as a story with Kafka's answers, ready for
conform/stories/. Exit status 1 when there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

from tests.stories.random.moving import Mover
from tests.stories.random.session import GROUPS, MIXED, TRANSACTIONS, Found, Session, Stopwatch, kind, numbered
from tests.support.cluster_nodes import ClusterNodes
from tests.support.postgres import own_database, running_postgres
from tests.support.servers import KafkaCluster, KafkaServer, MusterServer, NodesServer, ServerProcess, kafka_available

COMMON = {"group.min.session.timeout.ms": "100"}
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "at-once": {**COMMON, "group.initial.rebalance.delay.ms": "0", "group.max.size": "4"},
    "delayed": {**COMMON, "group.initial.rebalance.delay.ms": "400"},
}
"""Broker settings; each gets a part of the steps."""
OF_TRANSACTIONS = {
    **COMMON,
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
"""The settings of histories of transactions."""
OF_BOTH = {
    **COMMON,
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}
OF_CONSUMERS: Mapping[str, Mapping[str, str]] = {
    "consumers": {**OF_BOTH, "group.consumer.max.size": "4"},
    "brief": {
        **OF_BOTH,
        "group.consumer.session.timeout.ms": "1500",
        "group.consumer.heartbeat.interval.ms": "300",
    },
    "interval": {**OF_BOTH, "group.consumer.assignment.interval.ms": "700"},
    "upgrade": {**OF_BOTH, "group.consumer.migration.policy": "upgrade"},
    "downgrade": {**OF_BOTH, "group.consumer.migration.policy": "downgrade"},
}
"""The settings of histories of consumer groups, each with its part of the steps."""
UNSEEN_SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "5"}
"""Settings that no story can see."""
NOT_TOLD_OF_SEVERAL = {"offsets.topic.num.partitions": "6", "transaction.state.log.num.partitions": "6"}
OF_KAFKAS_CLUSTER = {"auto.leader.rebalance.enable": "false"}
MOVES = "of several brokers: so often something moves under histories of transactions (default: 1; 0: never)"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "tests.stories.random", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="default: a new one, which is printed")
    parser.add_argument("--steps", type=int, default=10_000, help="how many steps at least (default: 10000)")
    parser.add_argument("--seconds", type=float, default=480, help="how long at most, for all steps (default: 480)")
    parser.add_argument("--at-once", type=int, default=20, help="histories side by side (default: 20)")
    parser.add_argument(
        "--settings", choices=[*SETTINGS, *OF_CONSUMERS, "all"], default="all", help="the servers' (default: all)"
    )
    parser.add_argument("--transactions", action="store_true", help="histories of transactions")
    parser.add_argument("--consumers", action="store_true", help="histories of consumer groups and mixed ones")
    several = parser.add_mutually_exclusive_group()
    several.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="brokers of both (default: 1)")
    several.add_argument("--cluster", action="store_true", help="three brokers, Muster's over a PostgreSQL")
    parser.add_argument("--moves", type=float, default=1.0, metavar="SECONDS", help=MOVES)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="play this one history only, and print it")
    parser.add_argument("--differences", type=int, default=5, help="stop after so many (default: 5)")
    parser.add_argument("--shrink", type=float, default=90, metavar="SECONDS", help="for each difference (default: 90)")
    return parser.parse_args(words)


class Servers:
    """A Kafka and a Muster with the same settings, while the context lasts. `brokers`: "one", "nodes" or "cluster"."""

    def __init__(self, workdir: Path, properties: Mapping[str, str], brokers: str = "one") -> None:
        quiet = ["--log-level", "warning"]
        self._ends = ExitStack()
        self._brokers = brokers
        self._servers: list[ServerProcess | ClusterNodes] = []
        if brokers == "one":
            self._servers.append(KafkaServer(workdir / "kafka", properties))
            self._servers.append(MusterServer(workdir / "muster", properties, in_memory=True, arguments=quiet))
            return
        self._servers.append(KafkaCluster(workdir / "kafka", {**properties, **OF_KAFKAS_CLUSTER}))
        if brokers == "nodes":
            self._servers.append(NodesServer(workdir / "muster", properties, arguments=quiet))
        else:
            database = self._ends.enter_context(own_database(self._ends.enter_context(running_postgres())))
            self._servers.append(ClusterNodes(workdir / "muster", properties, database, arguments=quiet))

    def __enter__(self) -> dict[str, tuple[str, int]]:
        try:
            for server in self._servers:
                server.start()
        except BaseException:
            self.__exit__()
            raise
        if self._brokers != "one":
            return {server.name: (server.bootstrap, 0) for server in self._servers}
        return {server.name: server.address for server in self._servers}

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            if server.running:
                server.kill()  # their kept data is deleted
        self._ends.close()


def brokers_of(args: argparse.Namespace) -> str:
    """The kind of the brokers."""
    return "cluster" if args.cluster else "nodes" if args.nodes > 1 else "one"


@asynccontextmanager
async def moving(servers: Mapping[str, tuple[str, int]], args: argparse.Namespace) -> AsyncIterator[Mover | None]:
    """Move leaders and coordinators while the context lasts, if servers are named."""
    if not servers or not args.moves:
        yield None
        return
    mover = Mover([bootstrap for bootstrap, _ in servers.values()], args.seed)
    task = asyncio.create_task(mover.run(args.moves))
    try:
        yield mover
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def compare(args: argparse.Namespace, session: Session, steps: int, seconds: float) -> list[Found]:
    """Play the steps for these servers; differences are examined."""
    await session.prepare()
    await session.warm_up()
    watch = Stopwatch()
    if args.only is not None:
        outcome = await session.play_one(args.only)
        print(outcome.text)
    else:

        def enough() -> bool:
            return session.totals.steps >= steps or watch.seconds > seconds

        async with moving(session.servers if brokers_of(args) != "one" and args.transactions else {}, args) as mover:
            await session.run(numbered(args.seed), args.at_once, enough, args.differences)
        if mover is not None:
            print(f"  {mover.moves} moves of leaders and coordinators meanwhile", flush=True)
    totals, took_s = session.totals, watch.seconds
    print(
        f"  {totals.steps} steps of {totals.histories} histories in {took_s:.0f} s"
        f" ({totals.steps / took_s * 60:.0f} a minute), {len(session.found)} differences",
        f"  {len(session.passing)} more that were not seen again",
        f"  {totals.replies} replies, {totals.replies - totals.alike} not alike, as docs/conformance.md accepts:",
        *(f"    {paragraph}: {count} times" for paragraph, count in sorted(totals.met.items())),
        sep="\n",
        flush=True,
    )
    for found in session.passing:
        why = " (a server was late)" if found.outcome.is_late else ""
        print(f"history {found.number}, not seen again{why}: {found.outcome.difference}", flush=True)
    looked_into: set[str] = set()
    for found in list(session.found):
        what = kind(found.outcome.difference)
        print(f"history {found.number}: {found.outcome.difference}", flush=True)
        if what in looked_into or len(looked_into) == args.differences:
            print("  (as before)" if what in looked_into else "  (not looked into)", flush=True)
            continue
        await session.look_into(found, args.shrink)
        if found.story:
            looked_into.add(what)
        print(found.story or "  (not seen again with nothing beside it: it does not count)", flush=True)
    return session.found


def main() -> int:
    args = arguments()
    if not kafka_available():
        print("Comparing with Kafka needs Java 17+ and Maven (java and mvn on PATH).", file=sys.stderr)
        return 2
    if args.seed is None:
        args.seed = secrets.randbelow(10_000)
    for number in (signal.SIGINT, signal.SIGTERM):  # the servers are stopped, however the run ends
        signal.signal(number, signal.default_int_handler)
    print(f"seed {args.seed}", flush=True)
    found: list[Found] = []
    known, campaign = (OF_CONSUMERS, MIXED) if args.consumers else (SETTINGS, GROUPS)
    chosen = known if args.settings == "all" else {args.settings: known[args.settings]}
    if args.transactions:
        chosen, campaign = {"transactions": OF_TRANSACTIONS}, TRANSACTIONS
    try:
        for name, broker in chosen.items():
            print(f"{name}: {' '.join(f'{key}={value}' for key, value in broker.items())}", flush=True)
            properties = {**broker, **(UNSEEN_SETTINGS if brokers_of(args) == "one" else NOT_TOLD_OF_SEVERAL)}
            with (
                tempfile.TemporaryDirectory() as folder,
                Servers(Path(folder), properties, brokers_of(args)) as servers,
            ):
                session = Session(servers, broker, campaign)
                found += asyncio.run(compare(args, session, args.steps // len(chosen), args.seconds / len(chosen)))
    except KeyboardInterrupt:
        print("stopped", flush=True)
        return 130
    print(f"{len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
