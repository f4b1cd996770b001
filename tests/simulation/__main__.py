"""Simulate many histories: `make simulate ARGS='--seeds 20000 --start 0 --events 1000'`.

By default a history has many groups on the core; thousands run in a minute. With --consumers it has groups of KIP-848,
some with classic members. With --transactions it has many transactional ids, with --share a share group, with --streams
groups of Kafka Streams. With --nodes it is a whole node: connections, handlers, shards, log and cleaner, with a
network, a disk and a clock that fail. With --cluster it has the nodes of a cluster over a database that fails. Without
--seeds the program runs until it is stopped. It prints each failure with its seed and the last events; the exit code is
1 when there was one.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from tests.simulation import seeds
from tests.simulation.cluster.run import CHUNK as CLUSTERS
from tests.simulation.cluster.run import play_clusters
from tests.simulation.consumers.run import CONSUMERS
from tests.simulation.playing import EVENTS, Histories
from tests.simulation.run import GROUPS
from tests.simulation.share.run import SHARES
from tests.simulation.streams.run import STREAMS
from tests.simulation.transactions.run import TRANSACTIONS
from tests.torture.node.seeds import CHUNK as NODES
from tests.torture.node.seeds import play_brokers, play_nodes

CHUNK = 100
"""Seeds that are played in one task."""


def main(arguments: list[str] | None = None) -> int:
    """Play, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make simulate ARGS=...", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many histories (default: for ever)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--processes", type=int, default=0, help="default: one for each core")
    parser.add_argument("--events", type=int, default=EVENTS, help=f"events of each at least (default {EVENTS})")
    parser.add_argument("--nodes", action="store_true", help="of whole nodes")
    parser.add_argument("--brokers", action="store_true", help="of processes of three brokers, which stop and return")
    parser.add_argument("--cluster", action="store_true", help="of nodes over a database that fails")
    parser.add_argument("--consumers", action="store_true", help="of consumer groups, classic members among them")
    parser.add_argument("--transactions", action="store_true", help="of transactional ids")
    parser.add_argument("--share", action="store_true", help="of share groups")
    parser.add_argument("--streams", action="store_true", help="of streams groups")
    options = parser.parse_args(arguments)
    if options.cluster:
        return seeds.play(play_clusters, CLUSTERS, options.start, options.seeds, options.processes)
    if options.brokers:
        return seeds.play(play_brokers, NODES, options.start, options.seeds, options.processes)
    if options.nodes:
        return seeds.play(play_nodes, NODES, options.start, options.seeds, options.processes)
    others: dict[str, Histories[Any]] = {
        "consumers": CONSUMERS,
        "transactions": TRANSACTIONS,
        "share": SHARES,
        "streams": STREAMS,
    }
    chosen: Histories[Any] = next((found for name, found in others.items() if getattr(options, name)), GROUPS)
    chunk = chosen.chunk
    return seeds.play(partial(chunk, options.events), CHUNK, options.start, options.seeds, options.processes)


if __name__ == "__main__":
    sys.exit(main())
