"""Properties from the environment, mapped as in the apache/kafka image (its KafkaDockerWrapper)."""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "KAFKA_"

NOT_PROPERTIES = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_HOME",
        "KAFKA_DEBUG",
    }
)
"""Variables that the image and Kafka's scripts read themselves."""
_NOT_PROPERTIES_PREFIXES = ("KAFKA_JMX_", "KAFKA_LOG4J_")


def property_name(variable: str) -> str | None:
    """The property of a variable: `_` is `.`, `__` is `_`, `___` is `-`. None means that the variable is no
    property.
    """
    if not variable.startswith(PREFIX) or variable in NOT_PROPERTIES or variable.startswith(_NOT_PROPERTIES_PREFIXES):
        return None
    name = variable.removeprefix(PREFIX).lower()
    return name.replace("_", ".").replace("...", "-").replace("..", "_") or None


def properties(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Property name -> (variable, value), in the order of the variables' names."""
    found: dict[str, tuple[str, str]] = {}
    for variable in sorted(environment):
        name = property_name(variable)
        if name is not None:
            found[name] = (variable, environment[variable])
    return found
