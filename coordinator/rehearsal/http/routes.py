"""Which verb a request asks for, by its method and its path: one for each operation of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from muster.coordinator.rehearsal.http import verbs
from muster.coordinator.rehearsal.http.failures import Failure

OPERATIONS: Final[Mapping[str, verbs.Verb]] = {
    "describe": verbs.describe,
    "server": verbs.server,
    "listTopics": verbs.list_topics,
    "createTopic": verbs.create_topic,
    "topic": verbs.topic,
    "deleteTopic": verbs.delete_topic,
    "growTopic": verbs.grow_topic,
    "produce": verbs.produce,
    "records": verbs.records,
    "listGroups": verbs.list_groups,
    "group": verbs.group,
    "offsets": verbs.offsets,
    "history": verbs.history,
    "waitStable": verbs.wait_stable,
    "waitConsumed": verbs.wait_consumed,
    "rebalance": verbs.rebalance,
    "expireMember": verbs.expire,
    "removeMember": verbs.remove,
    "resetOffsets": verbs.reset_offsets,
    "holdJoins": verbs.hold_joins,
    "releaseJoins": verbs.release_joins,
    "listFaults": verbs.list_faults,
    "addFault": verbs.add_fault,
    "clearFaults": verbs.clear_faults,
    "fault": verbs.fault,
    "removeFault": verbs.remove_fault,
    "releaseFault": verbs.release_fault,
    "faultLog": verbs.fault_log,
    "scenarios": verbs.scenarios,
    "startScenario": verbs.start_scenario,
    "scenario": verbs.scenario,
    "endScenario": verbs.end_scenario,
    "time": verbs.time,
    "freeze": verbs.freeze,
    "advance": verbs.advance,
    "runUntil": verbs.run_until,
    "thaw": verbs.thaw,
    "listNodes": verbs.list_nodes,
    "stopNode": verbs.on_node("stop"),
    "killNode": verbs.on_node("kill"),
    "pauseNode": verbs.on_node("pause"),
    "resumeNode": verbs.on_node("resume"),
    "returnNode": verbs.on_node("return_"),
}
"""By the contract's operationId."""


def find(method: str, path: str) -> tuple[verbs.Verb, dict[str, str]]:
    """The verb, and what the path names. Raises Failure."""
    parts = path.split("/")
    found: dict[str, dict[str, str]] = {}
    operations: dict[str, str] = {}
    for template, methods in verbs.contract()["paths"].items():
        named = _match(template.split("/"), parts)
        # a path without names goes before one with them
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
