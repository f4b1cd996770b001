"""Distils Kafka's property definitions, which DumpProperties.java prints, into coordinator/properties/.

The file table.json has names, types, defaults, ranges, importances and update modes. The file documentation.json has
Kafka's own texts for DescribeConfigs (NOTICE names them). Run `KAFKA_JARS=directory python -m tools.properties.distil`.
It needs Java 17 and Kafka's jars. The files are committed, so this is run only for a new Kafka version.
ProbeValues.java, run the same way, prints how Kafka reads unusual values. Tests compare with its output in
tests/coordinator/properties/kafka_answers.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TABLE = HERE.parent.parent / "coordinator" / "properties" / "table.json"
DOCUMENTATION = TABLE.with_name("documentation.json")


def dump(jars: str) -> dict[str, Any]:
    """Run DumpProperties.java with the jars, and return what it prints."""
    command = ["java", "-Xmx256M", "-cp", f"{jars}/*", str(HERE / "DumpProperties.java")]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def valid(validator: dict[str, Any] | None) -> str | None:
    """The rule of a validator as a short text (coordinator/properties/lookup.py lists the forms)."""
    if validator is None:
        return None
    kind: str = validator["class"]
    if kind == "Range":
        return str(validator["text"])
    if kind == "LambdaValidator":
        return str(validator["text"])
    if kind in ("ValidString", "CaseInsensitiveValidString"):
        return ("one of " if kind == "ValidString" else "any case of ") + "|".join(validator["values"])
    if kind == "ValidList":
        rule = "some of " + "|".join(validator["values"]) if validator["values"] else "no twice"
        return rule if validator["emptyAllowed"] else rule + ", not empty"
    words = {
        "NonNullValidator": None,
        "NonEmptyString": "non-empty string",
        "ControllerQuorumVotersValidator": "quorum voters",
        "ControllerQuorumBootstrapServersValidator": None,
        "ThrottledReplicaListValidator": "throttled replicas",
        "Validator": str(validator["text"]),
    }
    return words[kind]


def rows(keys: list[dict[str, Any]], modes: dict[str, str] | None = None) -> list[list[object]]:
    """The rows of properties, in the form that coordinator/properties/lookup.py reads."""
    return [
        [
            key["name"],
            key["type"],
            key["default"],
            valid(key["validator"]),
            key["importance"],
            "" if modes is None else modes.get(key["name"], "read-only"),
            key["internal"],
        ]
        for key in keys
    ]


def table(found: dict[str, Any]) -> dict[str, Any]:
    """The whole table, as a dict of its named parts."""
    modes, in_files = found["updateModes"], {key["name"] for key in found["broker"]}
    dynamic_only = [key for key in found["brokerDynamicOnly"] if key["name"] not in in_files]
    return {
        "BROKER": rows(found["broker"], modes),
        "BROKER_DYNAMIC_ONLY": rows(dynamic_only, modes),
        "TOPIC": rows(found["topic"]),
        "GROUP": rows(found["group"]),
        "CLIENT_METRICS": rows(found["clientMetrics"]),
        "TOPIC_SYNONYMS": {
            name: [[broker, int(of_seven) // 7] for broker, of_seven, _ in synonyms]
            for name, synonyms in found["topicSynonyms"].items()
        },
        "GROUP_SYNONYMS": found["groupSynonyms"],
        "BROKER_SYNONYMS": found["brokerSynonyms"],
        "DYNAMIC_SECURITY": found["dynamicSecurity"],
        "OUTSIDE": found["outside"],
    }


def render(parts: dict[str, Any]) -> str:
    """Encode the table as JSON, with a line for each row."""
    texts = []
    for name, part in parts.items():
        if isinstance(part, dict):
            opening, closing = "{", "}"
            lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in part.items()]
        else:
            opening, closing = "[", "]"
            lines = [json.dumps(row) for row in part]
        texts.append(f"{json.dumps(name)}: {opening}\n " + ",\n ".join(lines) + f"\n{closing}")
    return "{\n" + ",\n".join(texts) + "\n}\n"


def documentation(found: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Kafka's text on each property, by the type of resource that has the property, and by name."""
    kinds = {"broker": "broker", "client-metrics": "clientMetrics", "group": "group", "topic": "topic"}
    return {kind: {key["name"]: key["documentation"] for key in found[source]} for kind, source in kinds.items()}


def main() -> None:
    """Write the table and the documentation."""
    jars = os.environ.get("KAFKA_JARS")
    if not jars:
        sys.exit("KAFKA_JARS is not set: name the directory that holds Kafka's jars")
    found = dump(jars)
    TABLE.write_text(render(table(found)), encoding="utf-8")
    DOCUMENTATION.write_text(json.dumps(documentation(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
