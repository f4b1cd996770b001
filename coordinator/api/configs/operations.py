"""The operations of IncrementalAlterConfigs (KIP-339): how the broker that is asked applies them, and how the
controller does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.coordinator.api.configs.resources import Kind
from muster.coordinator.properties.lookup import BROKER, DYNAMIC_ONLY
from muster.coordinator.properties.lookup import TOPIC as TOPIC_PROPERTIES
from muster.coordinator.properties.resource_configs import list_append, list_subtract
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.incremental_alter_configs import AlterableConfig

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
"""AlterConfigOp.OpType."""

Changes = dict[str, str | None]
"""Config name -> its new text. None removes the config."""


def applied(kind: int, configs: Sequence[AlterableConfig], present: Mapping[str, str]) -> Changes:
    """The changes that the operations make to the present configs of a resource. Raises `ApiError`."""
    return {config.name: _changed(kind, config, present) for config in configs}


def _changed(kind: int, config: AlterableConfig, present: Mapping[str, str]) -> str | None:
    name, text, operation = config.name, config.value or "", config.config_operation
    if operation == DELETE:
        return None
    if operation == SET:
        return text
    if operation not in (APPEND, SUBTRACT):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} on {name}")
    known = {Kind.TOPIC: TOPIC_PROPERTIES, Kind.BROKER: BROKER}.get(kind, {})
    prop = known.get(name)
    if prop is None or prop.type != "LIST":
        word = "APPEND" if operation == APPEND else "SUBTRACT"
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {name} because its type is not LIST.")
    current = present.get(name, prop.default)
    return list_append(current, text) if operation == APPEND else list_subtract(current, text)


def broker_after(configs: Sequence[AlterableConfig], present: Mapping[str, str]) -> dict[str, str]:
    """All configs of a broker after the operations, as the broker that is asked computes them. Raises `ApiError`."""
    after = dict(present)
    for config in configs:
        name, text, operation = config.name, config.value or "", config.config_operation
        if operation == DELETE:
            after.pop(name, None)
        elif operation == SET:
            after[name] = text
        elif operation in (APPEND, SUBTRACT):
            prop = DYNAMIC_ONLY.get(name) or BROKER.get(name)
            if prop is None:
                raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
            if prop.type != "LIST":
                word = "append" if operation == APPEND else "subtract"
                what = f"Config value {word} is not allowed for config key: {name}"
                raise ApiError(ErrorCode.INVALID_CONFIG, what)
            current = after.get(name, prop.default)
            after[name] = list_append(current, text) if operation == APPEND else list_subtract(current, text)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    return after
