"""The verb of a request, by its method and its path: one for each operation of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from muster.testcontrol.http import fault_verbs, group_verbs, server_verbs, time_verbs, topic_verbs
from muster.testcontrol.http.failures import Failure
from muster.testcontrol.http.verb import Verb, contract

OPERATIONS: Final[Mapping[str, Verb]] = {
    "describe": server_verbs.describe,
    "server": server_verbs.server,
    "listTopics": topic_verbs.list_topics,
    "createTopic": topic_verbs.create_topic,
    "topic": topic_verbs.topic,
    "deleteTopic": topic_verbs.delete_topic,
    "growTopic": topic_verbs.grow_topic,
    "produce": topic_verbs.produce,
    "records": topic_verbs.records,
    "listGroups": group_verbs.list_groups,
    "group": group_verbs.group,
    "offsets": group_verbs.offsets,
    "history": group_verbs.history,
    "waitStable": group_verbs.wait_stable,
    "waitConsumed": group_verbs.wait_consumed,
    "rebalance": group_verbs.rebalance,
    "expireMember": group_verbs.expire,
    "removeMember": group_verbs.remove,
    "resetOffsets": group_verbs.reset_offsets,
    "holdJoins": group_verbs.hold_joins,
    "releaseJoins": group_verbs.release_joins,
    "listFaults": fault_verbs.list_faults,
    "addFault": fault_verbs.add_fault,
    "clearFaults": fault_verbs.clear_faults,
    "fault": fault_verbs.fault,
    "removeFault": fault_verbs.remove_fault,
    "releaseFault": fault_verbs.release_fault,
    "faultLog": fault_verbs.fault_log,
    "scenarios": fault_verbs.scenarios,
    "startScenario": fault_verbs.start_scenario,
    "scenario": fault_verbs.scenario,
    "endScenario": fault_verbs.end_scenario,
    "time": time_verbs.time,
    "freeze": time_verbs.freeze,
    "advance": time_verbs.advance,
    "runUntil": time_verbs.run_until,
    "thaw": time_verbs.thaw,
    "listNodes": server_verbs.list_nodes,
    "stopNode": server_verbs.on_node("stop"),
    "killNode": server_verbs.on_node("kill"),
    "pauseNode": server_verbs.on_node("pause"),
    "resumeNode": server_verbs.on_node("resume"),
    "returnNode": server_verbs.on_node("return_"),
}
"""The verbs by the contract's operationId."""


def find(method: str, path: str) -> tuple[Verb, dict[str, str]]:
    """The verb, and the parameters in the path. Raises Failure."""
    parts = path.split("/")
    found: dict[str, dict[str, str]] = {}
    operations: dict[str, str] = {}
    for template, methods in contract()["paths"].items():
        named = _match(template.split("/"), parts)
        # a path without parameters is tried before one with parameters
        if named is not None and (not found or len(named) < min(map(len, found.values()))):
            found = dict.fromkeys(methods, named)
            operations = {one: operation["operationId"] for one, operation in methods.items()}
    if not found:
        raise Failure("not-found", f"there is no {path}; GET /v1/openapi.json says what there is")
    wanted = method.lower()
    if wanted not in found:
        raise Failure("method-not-allowed", f"{path} takes {', '.join(one.upper() for one in found)}, not {method}")
    return OPERATIONS[operations[wanted]], found[wanted]


def _match(template: list[str], parts: list[str]) -> dict[str, str] | None:
    if len(template) != len(parts):
        return None
    named = {}
    for wanted, part in zip(template, parts, strict=True):
        if wanted.startswith("{"):
            named[wanted[1:-1]] = unquote(part)
        elif wanted != part:
            return None
    return named
