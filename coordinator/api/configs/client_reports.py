"""What clients say of themselves (KIP-714): a config of client metrics resources that only Muster has.

Only a DescribeConfigs that names this config gets it. The resource is a client instance id, or `ALL`. So the commands
need no other protocol and no other permission than Kafka's.
"""

from __future__ import annotations

import json
from typing import Final

from muster.coordinator.api.node import Node
from muster.coordinator.properties.describe import SOURCE_CLIENT_METRICS, Entry
from muster.coordinator.system.jobs import Job
from muster.coordinator.telemetry.figures import summary, whole
from muster.coordinator.telemetry.reports import ALL, CONFIG

_STRING: Final = 2
"""The ConfigType of a text."""


def client_reports(node: Node, name: str) -> Job[list[Entry]]:
    """The config with the reports as a JSON list. The result is empty if the node keeps no reports."""
    reports, now_ms = node.client_reports, node.clock.mono_ms()
    if reports is None:
        return []
    rows: list[str] = []
    if name == ALL:
        for report in reports.all(now_ms):
            rows.append(json.dumps(summary(report)))
            yield None
    else:
        found = reports.get(name, now_ms)
        if found is not None:
            rows.append(json.dumps(whole(found)))
    return [Entry(CONFIG, f"[{','.join(rows)}]", True, SOURCE_CLIENT_METRICS, False, _STRING, ())]
