"""`muster nodes` lists, stops and starts the brokers of a `muster serve --nodes N` on this machine."""

from __future__ import annotations

import argparse
import json
import socket
from collections import Counter
from pathlib import Path
from typing import Any, Final

from muster.cli.output import fail, print_json, print_table
from muster.cli.running_server import Control, ControlFailed, path
from muster.client.connection import RequestFailed
from muster.client.kafka_client import KafkaClient, read_command_config
from muster.coordinator.config.checks import ConfigError
from muster.coordinator.config.listeners import parse_addresses, show
from muster.coordinator.server.nodes.control import NAME
from muster.protocol.api import ApiKey
from muster.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from muster.protocol.messages.metadata import MetadataRequest

_HEAD: Final = ("node", "state", "rack", "addresses", "connections", "leads", "coordinates")
OFFSETS: Final = "__consumer_offsets"


def run(options: argparse.Namespace) -> int:
    """Run the command. Exit status 1: the server refuses, or does not run."""
    node_id = getattr(options, "node", None)
    if options.command_config is not None and options.bootstrap_server is None:
        return fail("muster nodes", "--command-config is for --bootstrap-server: give both", 2)
    try:
        answer = _answer(options, node_id)
    except ConfigError as error:
        return fail("muster nodes", error, 2)
    if "error" in answer:
        return fail("muster nodes", answer["error"])
    rows = answer["nodes"]
    if options.json:
        for row in rows:
            print_json(row)
    else:
        cells = [{**row, "addresses": ",".join(row["addresses"])} for row in rows]
        print_table(_HEAD, [[row[name] for name in _HEAD] for row in cells])
    return 0


def _answer(options: argparse.Namespace, node_id: int | None) -> dict[str, Any]:
    """The brokers as JSON, or {"error": …}. Raises ConfigError."""
    if options.bootstrap_server is not None:
        return ask_cluster(options, node_id)
    if options.control is not None:
        return ask_control(options, node_id)
    return ask(options.data_dir or Path("muster-data"), {"do": options.verb, "node": node_id})


def ask_control(options: argparse.Namespace, node_id: int | None) -> dict[str, Any]:
    """The answer of a server's test control, or {"error": …}."""
    try:
        control = Control(options)
        if node_id is None:
            return control.ask("GET", path("nodes"))
        return control.ask("POST", path("nodes", str(node_id), options.verb))
    except ControlFailed as failure:
        return {"error": str(failure)}


def ask(directory: Path, question: dict[str, object]) -> dict[str, Any]:
    """The answer of the server that uses this data directory, or {"error": …}."""
    path = directory / NAME
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            line = connection.makefile("rb").readline()
    except OSError as error:
        why = error.strerror or str(error)
        return {
            "error": f"no server of several brokers answers at {path}: {why}; start one with muster serve --nodes 3"
        }
    if not line:
        return {"error": "the server has stopped meanwhile"}
    answer: dict[str, Any] = json.loads(line)
    return answer


def ask_cluster(options: argparse.Namespace, node_id: int | None) -> dict[str, Any]:
    """The brokers after the action `options.verb`, or {"error": …}. Raises ConfigError."""
    addresses = parse_addresses(options.bootstrap_server, "--bootstrap-server")
    security = read_command_config(options.command_config)
    try:
        with KafkaClient(addresses, security) as client:
            directory = _directory(client)
            if isinstance(directory, Path):
                return ask(directory, {"do": options.verb, "node": node_id})
            if options.verb == "list":
                return {"nodes": _rows(client)}
            return {"error": f"{client.bootstrap.address}: {directory}"}
    except RequestFailed as failure:
        return {"error": str(failure)}


def _directory(client: KafkaClient) -> Path | str:
    """The data directory of the connected server, if it is on this machine; otherwise a text that says why not."""
    if not client.bootstrap.is_local:
        return "brokers are changed on the machine that they run on, or by --control"
    try:
        answer = client.bootstrap.ask(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest([]))
    except RequestFailed:  # this server does not report its log directories
        answer = None
    for row in () if answer is None else answer.results:
        directory = Path(row.log_dir)
        if directory.is_absolute() and (directory / NAME).is_socket() and _is_of(client, directory):
            return directory
    return (
        "it is no muster serve --nodes with a data directory on this machine; brokers of a server under test are "
        "changed by --control"
    )


def _is_of(client: KafkaClient, directory: Path) -> bool:
    """Whether the connected server is the one that uses this directory: another machine may have the same path."""
    rows = ask(directory, {"do": "list", "node": None}).get("nodes", ())
    ports = {address.rpartition(":")[2] for row in rows for address in row["addresses"]}
    return client.bootstrap.address.rpartition(":")[2] in ports


def _rows(client: KafkaClient) -> list[dict[str, Any]]:
    answer = client.bootstrap.ask(ApiKey.METADATA, MetadataRequest(None, allow_auto_topic_creation=False))
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
