"""Broker loggers as config requests see them (KIP-412): their levels, set and unset."""

from __future__ import annotations

from collections.abc import Sequence

from muster.coordinator.api.configs.operations import APPEND, DELETE, SET, SUBTRACT
from muster.coordinator.system.logging.levels import LEVELS, LOGGERS, NUMBERS, ROOT
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.incremental_alter_configs import AlterableConfig


def levels() -> dict[str, str]:
    """The level of each logger, by Kafka's logger names."""
    return {logger: LEVELS.name(logger) for logger in LOGGERS}


def alter(configs: Sequence[AlterableConfig], *, validate_only: bool) -> None:
    """Set and unset levels: either all changes take effect, or the function raises `ApiError`."""
    for config in configs:
        _check(config)
    if validate_only:
        return
    for config in configs:
        if config.config_operation == DELETE:
            LEVELS.unset(config.name)
        else:
            LEVELS.set(config.name, config.value or "")


def _check(config: AlterableConfig) -> None:
    name, operation = config.name, config.config_operation
    if operation in (APPEND, SUBTRACT):
        word = "APPEND" if operation == APPEND else "SUBTRACT"
        what = f"{word} operation is not allowed for the BROKER_LOGGER resource"
        raise ApiError(ErrorCode.INVALID_REQUEST, what)
    if operation not in (SET, DELETE):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} on {name}")
    if name not in LOGGERS:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == DELETE:
        if name == ROOT:
            what = "Removing the log level of the root logger is not allowed"
            raise ApiError(ErrorCode.INVALID_REQUEST, what)
    elif config.value not in NUMBERS:
        what = f"Cannot set the log level of {name} to {config.value} as it is not a supported log level. "
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{what}Valid log levels are {', '.join(sorted(NUMBERS))}")
