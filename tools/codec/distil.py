"""Distil Kafka's message definitions, shipped as JSON in its jars, into definitions.json.

    python -m tools.codec.distil [JAR_DIRECTORY]

The result has names, types, version ranges, defaults, tags, nullable, ignorable, map keys. Left out are texts (licence
header, comments, "about"), and messages that brokers do not receive. Run this when Kafka's version changes.
definitions.json and the generated modules are committed.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

KAFKA = "4.4.0"
JARS = Path.home() / ".cache" / "muster" / f"kafka-{KAFKA}"
OUT = Path(__file__).with_name("definitions.json")

# Each definition's jar says which log or protocol the definition belongs to.
SOURCES = {
    "kafka-clients": "wire",
    "kafka-group-coordinator": "group",
    "kafka-share-coordinator": "share",
    "kafka-transaction-coordinator": "transaction",
    "kafka-metadata": "metadata",
}

# Definitions of type "data" in kafka-clients that Muster reads or writes.
DATA = (
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "ControlRecordTypeSchema",
    "EndTxnMarker",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
)

MESSAGE_KEYS = ("name", "type", "apiKey", "validVersions", "flexibleVersions", "latestVersionUnstable")
FIELD_KEYS = ("name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "default", "ignorable", "mapKey")


def read_definitions(jars: Path) -> list[tuple[str, dict[str, Any]]]:
    """Read every definition in the jars, as (source, parsed JSON), sorted by source and name."""
    found = []
    for jar, source in SOURCES.items():
        with zipfile.ZipFile(jars / f"{jar}-{KAFKA}.jar") as archive:
            for path in sorted(n for n in archive.namelist() if n.endswith(".json")):
                text = re.sub(r"(?m)^\s*//.*$", "", archive.read(path).decode())
                found.append((source, json.loads(text)))
    return found


def served_apis(definitions: list[tuple[str, dict[str, Any]]]) -> set[str]:
    """The names of request and response messages that clients and tools exchange with a broker."""
    names = set()
    for _, message in definitions:
        api = str(message["name"]).removesuffix("Request")
        listeners = message.get("listeners", ())
        if message["type"] == "request" and "broker" in listeners:
            names |= {api + "Request", api + "Response"}
    return names


def field(raw: dict[str, Any]) -> dict[str, Any]:
    """A field without texts. Absent versions become the tagged versions or, without those, all versions."""
    kept = {key: raw[key] for key in FIELD_KEYS if raw.get(key) is not None}
    kept.setdefault("versions", raw.get("taggedVersions", "0+"))
    kept["versions"] = str(kept["versions"])
    if not kept.get("mapKey"):
        kept.pop("mapKey", None)
    if not kept.get("ignorable"):
        kept.pop("ignorable", None)
    if "fields" in raw:
        kept["fields"] = [field(f) for f in raw["fields"]]
    return kept


def distilled(source: str, raw: dict[str, Any]) -> dict[str, Any]:
    """A message without texts."""
    kept: dict[str, Any] = {"source": source}
    kept |= {key: raw[key] for key in MESSAGE_KEYS if raw.get(key) is not None and raw[key] is not False}
    kept["fields"] = [field(f) for f in raw["fields"]]
    if "commonStructs" in raw:
        kept["commonStructs"] = [
            {"name": c["name"], "versions": c["versions"], "fields": [field(f) for f in c["fields"]]}
            for c in raw["commonStructs"]
        ]
    return kept


def wanted(source: str, raw: dict[str, Any], apis: set[str]) -> bool:
    """Whether Muster uses a definition."""
    if raw["validVersions"] == "none":
        return False
    return source != "wire" or raw["name"] in apis or raw["name"] in DATA


def main(arguments: list[str]) -> int:
    """Write definitions.json from the jars in the directory `arguments[0]`, by default those in the cache."""
    definitions = read_definitions(Path(arguments[0]) if arguments else JARS)
    apis = served_apis(definitions)
    rows = [
        json.dumps(distilled(source, raw), separators=(",", ":"))
        for source, raw in definitions
        if wanted(source, raw, apis)
    ]
    OUT.write_text('{"kafka":"' + KAFKA + '","messages":[\n' + ",\n".join(rows) + "\n]}\n")
    print(f"{len(rows)} definitions of Kafka {KAFKA}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
