"""Distil Kafka's property definitions, as printed by DumpProperties.java, into coordinator/properties/: table.py, and
the documentation that DescribeConfigs tells into documentation.json.

Run `KAFKA_JARS=directory python -m tools.properties.distil` (Java 17 and Kafka's jars are needed; the table is
committed, so only a new Kafka version asks for it). The table holds names, types, defaults, ranges, importances and
update modes: facts, no prose. The documentation is Kafka's own text (NOTICE names it). ProbeValues.java, run the same
way, prints what Kafka makes of odd values: the oracle that
tests/coordinator/properties/kafka_answers.json holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TABLE = HERE.parent.parent / "coordinator" / "properties" / "table.py"
DOCUMENTATION = TABLE.with_name("documentation.json")

HEAD = '''"""Every property that Apache Kafka {version} knows, distilled from its jars by tools/properties.

A row is (name, type, default, valid, importance, update mode, internal). Types are those of Kafka's ConfigDef. The
default is text as in a properties file, None when Kafka's is null. `valid` is None, a range "[min,...,max]",
"one of a|b", "any case of a|b", "some of a|b" (a list), "no twice" (a list of any words), or a word for a rule of its
own. The update mode is that of broker properties ("read-only", "per-broker", "cluster-wide"), else "".
"""

from __future__ import annotations

KAFKA_VERSION = "{version}"

Row = tuple[str, str, str | None, str | None, str, str, bool]
'''


def dump(jars: str) -> dict[str, Any]:
    """Run DumpProperties.java against the jars and return what it prints."""
    command = ["java", "-Xmx256M", "-cp", f"{jars}/*", str(HERE / "DumpProperties.java")]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def valid(validator: dict[str, Any] | None) -> str | None:
    """The rule of a validator as one short text (the forms are listed in the table's docstring)."""
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


def rows(keys: list[dict[str, Any]], modes: dict[str, str] | None = None) -> list[str]:
    """One line of Python for each property."""
    lines = []
    for key in keys:
        mode = "" if modes is None else modes.get(key["name"], "read-only")
        row = (
            key["name"],
            key["type"],
            key["default"],
            valid(key["validator"]),
            key["importance"],
            mode,
            key["internal"],
        )
        lines.append("    (" + ", ".join(quoted(value) for value in row) + "),")
    return lines


def quoted(value: object) -> str:
    """Python's own literal, with double quotes as ruff writes them."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def render(found: dict[str, Any]) -> str:
    """The whole module's text."""
    dynamic_only = [
        key for key in found["brokerDynamicOnly"] if key["name"] not in {k["name"] for k in found["broker"]}
    ]
    lines = [HEAD.format(version=found["version"])]
    for name, about, body in (
        ("BROKER", "AbstractKafkaConfig.CONFIG_DEF", rows(found["broker"], found["updateModes"])),
        (
            "BROKER_DYNAMIC_ONLY",
            "DynamicConfig.Broker, less BROKER: never in a file",
            rows(dynamic_only, found["updateModes"]),
        ),
        ("TOPIC", "LogConfig", rows(found["topic"])),
        ("GROUP", "GroupConfig", rows(found["group"])),
        ("CLIENT_METRICS", "ClientMetricsConfigs", rows(found["clientMetrics"])),
    ):
        lines += [f"# {about}", f"{name}: tuple[Row, ...] = (", *body, ")", ""]
    lines += [
        "# ServerTopicConfigSynonyms: topic property -> broker properties, the first given counts, times a factor",
        "",
    ]
    lines.append("TOPIC_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {")
    for name, synonyms in found["topicSynonyms"].items():
        pairs = " ".join(f"({quoted(broker)}, {int(of_seven) // 7})," for broker, of_seven, _ in synonyms)
        lines.append(f"    {quoted(name)}: ({pairs}),")
    lines += ["}", "", "# GroupConfig.ALL_GROUP_CONFIG_SYNONYMS: group property -> broker property", ""]
    lines.append("GROUP_SYNONYMS: dict[str, str | None] = {")
    lines += [f"    {quoted(name)}: {quoted(broker)}," for name, broker in found["groupSynonyms"].items()]
    lines += ["}", "", "# DynamicBrokerConfig.brokerConfigSynonyms, where a property has others than itself", ""]
    lines.append("BROKER_SYNONYMS: dict[str, tuple[str, ...]] = {")
    for name, names in found["brokerSynonyms"].items():
        lines.append(f"    {quoted(name)}: ({', '.join(map(quoted, names))}),")
    lines += ["}", "", "# DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS", ""]
    lines.append("DYNAMIC_SECURITY: tuple[str, ...] = (")
    lines += [f"    {quoted(name)}," for name in found["dynamicSecurity"]] + [")", ""]
    lines += ["# Names that parts of Kafka read beside its definitions: JmxReporter, StandardAuthorizer", ""]
    lines.append("OUTSIDE: tuple[str, ...] = (" + ", ".join(quoted(name) for name in found["outside"]) + ")")
    return "\n".join(lines) + "\n"


def documentation(found: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Kafka's text on each property, by the kind of resource that has it and its name."""
    kinds = {"broker": "broker", "client-metrics": "clientMetrics", "group": "group", "topic": "topic"}
    return {kind: {key["name"]: key["documentation"] for key in found[source]} for kind, source in kinds.items()}


def main() -> None:
    """Write the table and the documentation anew."""
    jars = os.environ.get("KAFKA_JARS")
    if not jars:
        sys.exit("KAFKA_JARS is not set: name the directory that holds Kafka's jars")
    found = dump(jars)
    TABLE.write_text(render(found), encoding="utf-8")
    DOCUMENTATION.write_text(json.dumps(documentation(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(TABLE)], check=True)


if __name__ == "__main__":
    main()
