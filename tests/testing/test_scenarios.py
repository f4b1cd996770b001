"""Each scenario by its name, with consumers of the libraries without asyncio, and of both protocols. They suffer it,
and recover. tests/testcontrol/test_scenarios.py has each scenario with aiokafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from muster.testing import Muster
from tests.testing.clients import CLIENTS, attempts


@pytest.fixture(scope="module")
def server() -> Iterator[Muster]:
    with Muster(topics={"orders": 3}, nodes=3) as running:
        yield running


@pytest.fixture(autouse=True)
def tidied(server: Muster) -> Iterator[None]:
    yield
    server.tidy()


SCENARIOS: dict[str, dict[str, Any]] = {
    "slow-coordinator": {"ms": 20},
    "lost-commit-answers": {"times": 1},
    "flapping-member": {"member": "one", "every": 2},
    "zombie": {"member": "one"},
    "rebalance-storm": {"times": 3, "every_ms": 100},
    "coordinator-moves": {},
    "rolling-restart": {"pause_ms": 50},
    "network-cut": {},
    "unclean-leader": {"topic": "orders", "partition": 0},
    "disk-full": {},
    "read-only-disk": {},
}
OF_NODES = {"rolling-restart", "network-cut", "unclean-leader", "disk-full", "read-only-disk"}


# kafka-python 3.0 sometimes does not wake its own thread (see `attempts`), and after a cut even less
UNSURE = {("network-cut", "kafka-python")}
CASES = [(scenario, client) for scenario in SCENARIOS for client in CLIENTS if client != "aiokafka"]


@pytest.mark.parametrize(("scenario", "client"), [one for one in CASES if one not in UNSURE])
def test_consumers_recover_from_each_scenario(server: Muster, scenario: str, client: str) -> None:
    attempts(client, lambda group_id: gets_over_it(server, client, scenario, f"{scenario}-{group_id}"))


def gets_over_it(server: Muster, client: str, scenario: str, group_id: str) -> None:
    group, topic = server.group(group_id), server.topic("orders")
    parameters = SCENARIOS[scenario] | ({} if scenario in OF_NODES else {"group": group_id})
    topic.produce("a", "b", "c")
    consumer = CLIENTS[client](server.bootstrap_servers, "orders", group_id, "one")
    with consumer:
        before = group.wait_stable(members=1, partitions="orders", timeout=30)
        group.wait_consumed("orders", timeout=30)
        if scenario == "network-cut":
            parameters["nodes"] = str(server.coordinator(group_id).id)
        with server.scenario(scenario, **parameters) as running:
            if scenario == "zombie":
                group.wait_until(lambda now: not now.members or now.generation > before.generation + 1, what="is out")
            elif scenario == "flapping-member":
                group.wait_until(lambda now: now.generation > before.generation + 2, what="flaps", timeout=30)
            elif scenario == "rebalance-storm":
                group.wait_until(lambda _: running.is_done, what="the storm is over", timeout=30)
            elif scenario == "network-cut":
                group.wait_until(lambda _: server.faults.list()[0].hits, what="somebody is cut off", timeout=30)
            elif scenario not in ("disk-full", "read-only-disk"):
                topic.produce("d", "e", "f")
                group.wait_consumed("orders", timeout=30)
            assert running.steps
            if scenario in ("lost-commit-answers", "slow-coordinator"):
                assert {hit["group"] for hit in server.faults.log() if hit["name"] == scenario} >= {group_id}
        topic.produce("g", "h", "i")
        group.wait_stable(members=1, partitions="orders", timeout=60)
        group.wait_consumed("orders", timeout=60)
