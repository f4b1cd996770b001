"""The records of a streams group, written by hand for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from muster.pipeline.infer.epoch_image import CURRENT, EPOCH, MEMBER, TARGET_EPOCH, Record
from muster.pipeline.infer.stream_tasks import OF_STREAMS_GROUPS, TOPOLOGY
from muster.pipeline.schema import STREAMS_GROUP

_TYPES = {kind: key_type for key_type, kind in OF_STREAMS_GROUPS.items()}


class Written:
    """A log that grows. `sources`: the source topics of each subtopology; None: the topology is not in the log.

    Each method returns the log, and writes at the time of the last `at`.
    """

    def __init__(self, sources: Mapping[str, tuple[str, ...]] | None, start_ms: int = 0) -> None:
        self.records: list[Record] = []
        self.now_ms, self._epoch = start_ms, 0
        if sources is not None:
            rows = [{"subtopologyId": name, "sourceTopics": list(its)} for name, its in sources.items()]
            self.record(TOPOLOGY, "", {"epoch": 0, "subtopologies": rows})

    def at(self, ms: int) -> Written:
        self.now_ms = ms
        return self

    def record(self, kind: int, key: str, value: Mapping[str, Any] | None) -> Written:
        self.records.append(Record(len(self.records), self.now_ms, kind, key, value))
        return self

    def member(self, name: str, *, process: str | None = None, instance: str | None = None) -> Written:
        its = {"clientId": name, "clientHost": "/h", "processId": process or name, "instanceId": instance}
        return self.record(MEMBER, name, {**its, "rebalanceTimeoutMs": 10_000, "rackId": None})

    def epoch(self, number: int, *, is_ready: bool = True) -> Written:
        self._epoch = number
        validated = {"validatedTopologyEpoch": 0} if is_ready else {}
        self.record(EPOCH, "", {"epoch": number, "metadataHash": 0, **validated})
        return self.record(TARGET_EPOCH, "", {"assignmentEpoch": number})

    def has(
        self, name: str, *, active: str = "", standby: str = "", warmup: str = "", state: int = 1,
        member_epoch: int | None = None,
    ) -> Written:  # fmt: skip
        """A member's position: "0/1+2 1/0" means the tasks 1 and 2 of subtopology 0, and 0 of subtopology 1."""
        rows = {"activeTasks": _rows(active), "standbyTasks": _rows(standby), "warmupTasks": _rows(warmup)}
        epoch = self._epoch if member_epoch is None else member_epoch
        return self.record(CURRENT, name, {"memberEpoch": epoch, "state": state, **rows})

    def gone(self, name: str) -> Written:
        return self.record(CURRENT, name, None).record(MEMBER, name, None)

    def decoded(self, group: str) -> list[dict[str, Any]]:
        """Rows of schema.DECODED."""
        return [
            {
                "kind": STREAMS_GROUP, "group": group, "log_partition": 0, "log_offset": one.offset,
                "log_timestamp_ms": one.at_ms, "key_type": _TYPES[one.key_type], "is_tombstone": one.value is None,
                "key_json": json.dumps({"groupId": group, **({"memberId": one.key} if one.key else {})}),
                "value_json": None if one.value is None else json.dumps(one.value),
            }
            for one in self.records
        ]  # fmt: skip


def _rows(text: str) -> list[dict[str, Any]]:
    tasks = [one.partition("/") for one in text.split()]
    return [{"subtopologyId": name, "partitions": [int(one) for one in its.split("+")]} for name, _, its in tasks]
