"""Any message as the text of a story, and back: `Topics=[{Name=o NumPartitions=2}]`. Fields that have their default are
left out. So a story can ask any API without a request word of its own.

What each server has of its own is not shown: addresses, the cluster's id, throttle times. A broker's id is `node`,
and a time of day is `time`. Topic ids are the names of their topics.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

from muster.conform.player import kafka_codec as codec
from muster.conform.player.batches import Batch, batches_of
from muster.conform.player.stage import Stage, error_name
from muster.conform.player.story import Body

HIDDEN = frozenset(
    {
        "ThrottleTimeMs", "ClusterId", "Host", "Port", "Rack", "ControllerId", "NodeEndpoints", "ApiKeys",
        "SupportedFeatures", "FinalizedFeatures", "FinalizedFeaturesEpoch", "LogDir", "TotalBytes", "UsableBytes",
        "PartitionSize",
    }
)  # fmt: skip
"""Fields that differ from server to server."""
LONG = frozenset({("CreateTopics", "Configs")})
"""Fields that are not shown in an answer, because they have a row for each setting that a release knows."""
NODES = frozenset({"NodeId", "LeaderId", "BrokerId", "ReplicaNodes", "IsrNodes", "ReplicaId"})
SESSION = "SessionId"
"""The id of a fetch session, which is `session`."""
TIMES_MS = range(10**12, 10**13)
"""Times of these years."""

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[][{}=]|[^][{}=\s"]+)')
_BARE = re.compile(r"[!#-<>-Z\\^-z|~]+")


# ---- text -> message


def message_of(stage: Stage, api: str, text: str) -> Body:
    """The body of a request."""
    tokens = _TOKEN.findall(text)
    values = _struct([*tokens, "}"][::-1])
    spec = codec.MESSAGES[api + "Request"]
    return _typed(stage, spec, spec["fields"], values)


def _struct(tokens: list[str]) -> dict[str, Any]:
    """Read `name=value` up to the closing bracket; `tokens` has the next one last."""
    values: dict[str, Any] = {}
    while (name := tokens.pop()) != "}":
        if tokens.pop() != "=":
            raise ValueError(f"{name} has no value")
        values[name] = _value(tokens)
    return values


def _value(tokens: list[str]) -> Any:
    token = tokens.pop()
    if token == "{":
        return _struct(tokens)
    if token == "[":
        rows = []
        while tokens[-1] != "]":
            rows.append(_value(tokens))
        tokens.pop()
        return rows
    return json.loads(token) if token[0] == '"' else token


def _typed(stage: Stage, spec: Body, fields: list[Body], values: dict[str, Any]) -> Body:
    known = {field["name"]: field for field in fields}
    unknown = set(values) - set(known)
    if unknown:
        raise ValueError(f"no such fields: {sorted(unknown)}")
    return {name: _of_type(stage, spec, known[name], known[name]["type"], value) for name, value in values.items()}


def _of_type(stage: Stage, spec: Body, field: Body, kind: str, value: Any) -> Any:
    if value == "null":
        return None
    if kind.startswith("[]"):
        return [_of_type(stage, spec, field, kind[2:], one) for one in value]
    if isinstance(value, dict):
        return _typed(stage, spec, field.get("fields") or spec["commonStructs"][kind], value)
    if kind == "string":
        if value[-1:] == "~":
            return stage.group(value[:-1])
        if value == "node":
            return str(stage.node)
        return stage.topic(value) if value in stage.story.topics or value in stage.story.own_topics else value
    if kind == "uuid":
        return uuid.UUID(int=0) if value == "none" else stage.topic_id(value)
    if kind == "records":
        return Batch(value.split(","), (-1, -1), -1, is_transactional=False)
    if kind == "bytes":
        return value.encode()
    if kind == "bool":
        return value == "true"
    if kind == "float64":
        return float(value)
    known = {"node": stage.node, "session": stage.fetch_session}
    return known[value] if value in known else int(value)


# ---- message -> text


def text_of_answer(stage: Stage, api: str, version: int, body: Body) -> str:
    """The fields of an answer that have not their default."""
    spec = {**codec.MESSAGES[api + "Response"], "api": api}
    return _fields_text(stage, spec, spec["fields"], version, body) or "ok"


def learn(stage: Stage, body: Body) -> None:
    """Remember the id of a broker, and that of a fetch session."""
    for broker in body.get("Brokers", [])[:1]:
        stage.node = broker.get("NodeId", broker.get("BrokerId"))
    stage.fetch_session = body.get(SESSION) or stage.fetch_session


def _fields_text(stage: Stage, spec: Body, fields: list[Body], version: int, values: Body) -> str:
    out = []
    for field in fields:
        name = field["name"]
        value = values[name]
        if name in HIDDEN or (spec["api"], name) in LONG:
            continue
        if codec.in_range(field["versions"], version) and value != codec.default_of(field):
            out.append(f"{name}={_text(stage, spec, field, field['type'], version, value)}")
    return " ".join(out)


def _text(stage: Stage, spec: Body, field: Body, kind: str, version: int, value: Any) -> str:
    name = field["name"]
    if value is None:
        return "null"
    if kind.startswith("[]"):
        rows = [stage.without_prefix(_text(stage, spec, field, kind[2:], version, one)) for one in value]
        if value and isinstance(value[0], dict):
            rows = sorted(set(rows) if name == "Brokers" else rows)
        return f"[{' '.join(rows)}]"
    if isinstance(value, dict):
        return "{" + _fields_text(stage, spec, field.get("fields") or spec["commonStructs"][kind], version, value) + "}"
    if name.endswith("ErrorCode"):
        return error_name(value)
    if kind == "string":
        return _string(stage, name, stage.plain(value))
    if kind == "uuid":
        return _id_text(stage, value)
    if kind == "records":
        return f"[{' '.join(_records(value))}]"
    if kind == "bytes":
        return _quoted(value.decode(errors="replace"))
    if kind == "bool":
        return str(value).lower()
    if name in NODES and value >= 0:
        return "node"
    if name == SESSION and value == stage.fetch_session:
        return "session"
    if kind == "int64" and value in TIMES_MS:
        return "time"
    return str(value)


def _string(stage: Stage, name: str, text: str) -> str:
    """A text, in which the id of a known broker is `node`."""
    if stage.node >= 0 and text == str(stage.node):
        return "node"
    if stage.node >= 0 and name.endswith("Message"):
        text = re.sub(rf"\b{stage.node}\b", "node", text)
    return _quoted(text)


def _quoted(text: str) -> str:
    is_plain = _BARE.fullmatch(text) and text not in ("null", "node", "none")
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _id_text(stage: Stage, value: uuid.UUID) -> str:
    if not value.int:
        return "none"
    known = next((name for name, real in stage.topic_ids.items() if real == value), None)
    return known or "<uuid>"


def _records(raw: bytes) -> list[str]:
    """Offset and value of each record."""
    return [
        f"{offset}:{'null' if value is None else value.decode(errors='replace')}"
        for batch in batches_of(raw)
        for offset, _, value in batch.records
    ]
