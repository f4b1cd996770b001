"""What a real Kafka logs (level INFO) of the epochs of its KIP-848 groups. This is the truth with which inferred facts
of such groups are scored, as `tests.pipeline.scripted_truth` is for classic groups.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from muster.pipeline.decode import decode
from muster.pipeline.sources.segments import read_segments
from tests.pipeline.scripted_truth import SOON_MS, Action

_LINE: Final = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) INFO GroupMetadataManager .* \[GroupId ([^\]]+)\] (.*)$"
)
_BUMPED: Final = re.compile(r"Bumped group epoch to (\d+) with metadata hash")
_CAUSES: Final = (
    ("member_joined", re.compile(r"(?:Static m|M)ember (\S+) (?:with instance id \S+ )?joins the consumer group")),
    ("member_left", re.compile(r"(?:Static m|M)ember (\S+) (?:with instance id \S+ )?left the consumer group")),
    ("member_left", re.compile(r"(?:Dynamic|Static) member (\S+) (?:with instance id \S+ )?has left group through")),
    ("session_expired", re.compile(r"Member (\S+) fenced from the group because the member session expired")),
    ("revocation_timeout", re.compile(r"Member (\S+) fenced from the group because it failed to transition")),
)
_CREATED: Final = re.compile(r"Created a new member id (\S+) and requesting the member to rejoin")
_AGAIN: Final = "using the classic protocol"
"""Members with the classic protocol also join again."""
_MEMBER_METADATA: Final = 5


def epochs_truth(
    log: Iterable[str], clients: Mapping[str, str], actions: Sequence[Action], ends: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """The lines. `clients`: client ids by member ids, `ends`: when the script stopped to act on each group."""
    begun: dict[str, tuple[str, str]] = {}
    todo = list(actions)
    last = dict.fromkeys(ends, 0)
    new: set[str] = set()
    waiting: dict[str, dict[str, Any]] = {}
    for line in log:
        if (found := _LINE.match(line)) is None or found[2] not in ends:
            continue
        group, what = found[2], found[3]
        at_ms = round(datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() * 1000)
        if (bumped := _BUMPED.match(what)) is not None:
            if at_ms > ends[group]:
                continue
            last[group] = int(bumped[1])
            cause, member_id = begun.pop(group, (None, ""))
            client_id = clients.get(member_id)
            if cause is None:
                cause, client_id = _done_by_script(todo, group, at_ms)
            before = waiting.get(group)
            if (
                before is not None and before["generation"] != last[group]
            ):  # otherwise it could not be written the first time
                yield before
            waiting[group] = {
                "kind": "rebalance", "group": group, "generation": last[group], "cause": cause,
                "trigger": client_id and {"client_id": client_id}, "acted": at_ms, "settled": at_ms,
            }  # fmt: skip
            continue
        if (created := _CREATED.search(what)) is not None:
            new.add(created[1])
        for cause, pattern in _CAUSES:
            if (who := pattern.match(what)) is None or (_AGAIN in what and who[1] not in new):
                continue
            new.discard(who[1])
            begun.setdefault(group, (cause, who[1]))
    yield from waiting.values()
    for group, generation in last.items():
        yield {"kind": "unsure", "group": group, "first": generation + 1, "last": None}


def _done_by_script(todo: list[Action], group: str, at_ms: int) -> tuple[str, str | None]:
    """No member joined or left. The broker does not say who changed its subscription; else a topic has grown."""
    for one in todo:
        if one.group == group and one.client_id is not None and 0 <= at_ms - one.at_ms < SOON_MS:
            todo.remove(one)
            return one.cause, one.client_id
    return "partitions_changed", None


def client_ids(directory: Path) -> dict[str, str]:
    """The client id of each member of a KIP-848 group in a log."""
    found: dict[str, str] = {}
    for raw in read_segments(str(directory)):
        for batch in decode(raw):
            for row in batch.to_pylist():
                if row["key_type"] == _MEMBER_METADATA and row["value_json"] is not None:
                    key, value = json.loads(row["key_json"]), json.loads(row["value_json"])
                    found[key["memberId"]] = value["clientId"]
    return found
