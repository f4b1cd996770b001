"""`muster nodes --bootstrap-server`: the brokers of a running cluster, Muster's or Kafka's. Brokers of a Muster on this
machine can be changed, too.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from muster.client.connection import AskingFailed
from muster.client.kafka_client import Cluster, read_command_config
from muster.coordinator.config.listeners import parse_addresses, show
from muster.coordinator.server.nodes.control import NAME
from muster.protocol.api import ApiKey
from muster.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from muster.protocol.messages.metadata import MetadataRequest

OFFSETS: Final = "__consumer_offsets"
AskDirectory = Callable[[Path, dict[str, object]], dict[str, Any]]


def ask_cluster(options: argparse.Namespace, node_id: int | None, ask: AskDirectory) -> dict[str, Any]:
    """The brokers, after a change of one of them if `options.verb` demands it; or an error in their place. `ask` sends
    a question to the server on a data directory. Raises ConfigError.
    """
    addresses = parse_addresses(options.bootstrap_server, "--bootstrap-server")
    security = read_command_config(options.command_config)
    try:
        with Cluster(addresses, security) as cluster:
            directory = _directory(cluster, ask)
            if isinstance(directory, Path):
                return ask(directory, {"do": options.verb, "node": node_id})
            if options.verb == "list":
                return {"nodes": _rows(cluster)}
            return {"error": f"{cluster.bootstrap.address}: {directory}"}
    except AskingFailed as failure:
        return {"error": str(failure)}


def _directory(cluster: Cluster, ask: AskDirectory) -> Path | str:
    """The data directory of a Muster with several brokers here; or a text that says why it is not known."""
    if not cluster.bootstrap.is_local:
        return "brokers are changed on the machine that they run on, or by --control"
    try:
        answer = cluster.bootstrap.ask(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest([]))
    except AskingFailed:  # the server does not report its log directories
        answer = None
    for row in () if answer is None else answer.results:
        directory = Path(row.log_dir)
        if directory.is_absolute() and (directory / NAME).is_socket() and _is_of(cluster, directory, ask):
            return directory
    return (
        "it is no muster serve --nodes with a data directory on this machine; only such brokers can be changed, or by "
        "--control those of a server under test"
    )


def _is_of(cluster: Cluster, directory: Path, ask: AskDirectory) -> bool:
    """Whether the server on that directory is the connected one. The path alone may belong to another machine or
    server.
    """
    rows = ask(directory, {"do": "list", "node": None}).get("nodes", ())
    ports = {address.rpartition(":")[2] for row in rows for address in row["addresses"]}
    return cluster.bootstrap.address.rpartition(":")[2] in ports


def _rows(cluster: Cluster) -> list[dict[str, Any]]:
    """What any Kafka reports about its brokers that are up."""
    answer = cluster.bootstrap.ask(ApiKey.METADATA, MetadataRequest(None, allow_auto_topic_creation=False))
    leads = Counter(one.leader_id for topic in answer.topics for one in topic.partitions)
    coordinates = Counter(one.leader_id for topic in answer.topics if topic.name == OFFSETS for one in topic.partitions)
    return [
        {
            "node": one.node_id,
            "state": "up",
            "rack": one.rack,
            "addresses": [show(one.host, one.port)],
            "connections": None,
            "leads": leads[one.node_id],
            "coordinates": coordinates[one.node_id],
        }
        for one in sorted(answer.brokers, key=lambda one: one.node_id)
    ]
