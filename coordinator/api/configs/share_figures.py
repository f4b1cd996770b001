"""Figures of the share partitions that a node leads: a config of group resources that only Muster has.

Only a DescribeConfigs that names this config gets it. So the commands need no other protocol than Kafka's.
"""

from __future__ import annotations

import json
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import allowed_names
from muster.coordinator.api.node import Node
from muster.coordinator.properties.describe import SOURCE_GROUP, Entry
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.share.figures import CONFIG, figures, held, rows_of
from muster.coordinator.system.jobs import Job

_STRING: Final = 2
"""The ConfigType of a text."""


def share_figures(node: Node, context: RequestContext, group_id: str) -> Job[list[Entry]]:
    """The config with a JSON list: a row for each loaded share partition. The result is empty without share groups."""
    shares = node.share_partitions
    if shares is None or not shares.level:
        return []
    led = [share for share in shares.of_group(group_id) if share.is_active]
    names = sorted({share.partition.topic for share in led})
    allowed = yield from allowed_names(node, context, Operation.DESCRIBE, ResourceType.TOPIC, names)
    rows: list[str] = []
    for share in led:
        core, topic = share.core, share.partition.topic
        if topic in allowed:
            row = {"topic": topic, "partition": share.key.partition, "start": core.start_offset}
            row |= {"done": core.done_count, "held": held(core)}
            rows.append(json.dumps(row | figures(core.start_offset, rows_of(core))._asdict()))
        yield None
    return [Entry(CONFIG, f"[{','.join(rows)}]", True, SOURCE_GROUP, False, _STRING, ())]
