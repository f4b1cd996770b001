"""The consoles of two nodes over one PostgreSQL: each has its own groups, and leads to the other."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from confluent_kafka import Producer

from muster.postgres import administration
from muster.postgres.store import Identity
from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.e2e.ledger import eventually_sync
from tests.e2e.sync_clients import refused_commits
from tests.support.cluster_nodes import ClusterNode
from tests.support.postgres import own_database
from tests.support.servers import QUICK, free_port_pair

pytestmark = pytest.mark.skipif(SERVER != "muster" or bool(BOOTSTRAP), reason="nodes of Muster's own")
GROUPS = [f"g{number}" for number in range(8)]
PARTITIONS = 4
RECORDS = 3


@pytest.fixture
def nodes(postgres: str, tmp_path: Path) -> Iterator[list[ClusterNode]]:
    """Two nodes with doors, a topic with records, and groups that have read none of them."""
    with ExitStack() as ends:
        database = ends.enter_context(own_database(postgres))
        asyncio.run(administration.init(database, "muster", Identity("of-the-test", "AAAAAAAAAAAAAAAAAAAAAQ")))
        made = []
        words = ["--cluster", database, "--http", "127.0.0.1:0", "--topic", f"orders:{PARTITIONS}"]
        for number in range(2):
            node = ClusterNode(tmp_path / f"node-{number}", QUICK, arguments=words)
            node.bootstrap = f"127.0.0.1:{free_port_pair()}"
            node.begin()
            ends.callback(node.stop)
            made.append(node)
        for node in made:
            node.until_ready()
        yield made


def door(node: ClusterNode) -> str:
    (line,) = node.log_lines("http is served")
    address: str = line["address"]
    return address


def asked(address: str, body: Any = None) -> tuple[int, Any]:
    """Status and answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {} if data is None else {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
            return answer.status, text if "/metrics" in address else json.loads(text)
    except HTTPError as refused:
        return refused.code, json.loads(refused.read())


def groups_of(base: str) -> dict[str, int]:
    """The lag of each group that a console shows."""
    return {row["group"]: row["lag"] for row in asked(f"{base}/console/groups")[1]["groups"]}


def is_shared_out(*doors: str) -> bool:
    """Whether all groups are there, and each node has some. The console itself is not asked, since it reads seldom."""
    found = [{row["group"] for row in asked(f"{base}/api/v1/groups")[1]["groups"]} for base in doors]
    return all(found) and sorted(name for names in found for name in names) == GROUPS


def until_committed(bootstrap: str, group: str) -> None:
    """Commit for a group, again while its coordinator moves to the second node."""
    eventually_sync(lambda: not refused_commits(bootstrap, "orders", group, PARTITIONS), f"offsets of {group}")


def test_each_console_has_its_groups_and_leads_to_the_other(nodes: list[ClusterNode]) -> None:
    bootstrap = ",".join(node.bootstrap for node in nodes)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(PARTITIONS * RECORDS):
        producer.produce("orders", b"x", partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    for group in GROUPS:
        until_committed(bootstrap, group)
    first, second = map(door, nodes)
    eventually_sync(lambda: is_shared_out(first, second), "the second node gets its share of the groups")
    # each group is on one console, and its lag counts the partitions that the other node leads, too
    here, there = groups_of(first), groups_of(second)
    assert {**here, **there} == dict.fromkeys(GROUPS, PARTITIONS * RECORDS)
    assert here.keys() & there.keys() == set()
    node_ids = {node["console"]: node["node"] for node in asked(f"{first}/api/v1/nodes")[1]["nodes"]}
    for base, other in ((first, second), (second, first)):
        elsewhere = {"node": node_ids[other], "console": other}
        assert asked(f"{base}/console/about")[1]["others"] == [elsewhere]
        away, own = (min(there), min(here)) if base == first else (min(here), min(there))
        delete = {"action": "delete_group", "confirm": away}
        for status, answer in (
            asked(f"{base}/console/groups/{away}"),
            asked(f"{base}/api/v1/groups/{away}"),
            asked(f"{base}/console/groups/{away}/actions", delete),
        ):
            assert (status, answer["error"]["details"]) == (404, elsewhere)
        assert asked(f"{base}/api/v1/groups/{own}")[1]["lag"] == PARTITIONS * RECORDS
        text = asked(f"{base}/metrics")[1]
        assert text.count(f'kafka_consumergroup_lag{{consumergroup="{own}"') == PARTITIONS
        # an action may need the ends of partitions that the other node leads
        reset = {"action": "reset_offsets", "topic": "orders", "to": "latest", "confirm": own}
        assert asked(f"{base}/console/groups/{own}/actions", reset)[0] == 200
        offsets = asked(f"{base}/console/groups/{own}/offsets")[1]["offsets"]
        assert [(one["offset"], one["lag"]) for one in offsets] == [(RECORDS, 0)] * PARTITIONS
        assert asked(f"{base}/console/groups/{own}/actions", {"action": "delete_group", "confirm": own})[0] == 200
