"""IncrementalAlterConfigs and AlterConfigs: change the configs of topics, brokers, groups, client metrics and loggers
(KIP-133, KIP-226, KIP-339, KIP-412, KIP-714, KIP-848).

Checks have Kafka's order: first the checks of the broker that has the request, then those of the controller. The
controller first checks the values, and then whether the topic exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from muster.coordinator.api.configs import resources
from muster.coordinator.api.configs.resources import (
    DELETE,
    Changes,
    Kind,
    applied,
    broker_after,
    check_altered_broker,
    check_altered_loggers,
    check_authorized,
)
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import pattern_error, until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.properties import live, resource_configs
from muster.coordinator.properties.definition import InvalidProperty, InvalidRequest
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job, counting
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_log import MIN_INSYNC_REPLICAS
from muster.coordinator.topics.names import EVENTS_OF, name_fault
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import alter_configs as full
from muster.protocol.messages import incremental_alter_configs as incremental

CLEANUP_POLICY: Final = "cleanup.policy"
MAX_CHANGES: Final = 10_000
"""The most changes of one request (QuorumController.MAX_RECORDS_PER_USER_OP)."""
MAX_BROKER_PROPERTIES: Final = 1_000
"""The most properties of a broker. Kafka accepts any name, and answers that describe the broker list all properties."""
MAX_BROKER_CHARACTERS: Final = 1_000_000
"""The most characters in all names and values of a broker's properties together."""
MAX_RESOURCES: Final = 100_000
"""The most groups and client metrics with configs. Such a resource exists only because it has configs."""
MAX_RESOURCE_CHARACTERS: Final = 16_000_000
"""The most characters in names and configs of groups and client metrics together, which are all in memory."""
_TOO_MANY_CHANGES: Final = "Unable to perform excessively large batch operation."
Row = TypeVar("Row", incremental.AlterConfigsResource, full.AlterConfigsResource)
Answer = TypeVar("Answer", incremental.AlterConfigsResourceResponse, full.AlterConfigsResourceResponse)


@in_steps(forwarded=True)
def handle_incremental_alter_configs(
    node: Node, context: RequestContext, request: incremental.IncrementalAlterConfigsRequest
) -> Job[incremental.IncrementalAlterConfigsResponse]:
    """Set or delete single configs, append to them, or subtract from them."""

    def alter(row: incremental.AlterConfigsResource) -> Job[None]:
        kind, name = row.resource_type, row.resource_name
        _check_form(row.configs, [c.name for c in row.configs if c.value is None and c.config_operation != DELETE])
        if kind == Kind.BROKER_LOGGER:
            if not node.authorizer.allows(context, Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
                raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            check_altered_loggers(name, node.cluster.node_id)
            resources.alter_levels(row.configs, validate_only=request.validate_only)
            return
        present = _present(node, context, kind, name)
        if kind == Kind.BROKER:
            _check_broker(node, name, broker_after(row.configs, present))
        yield from changing(node, kind, name, applied(kind, row.configs, present), request.validate_only)

    responses = yield from _alter_all(
        node, request.resources, alter, incremental.AlterConfigsResourceResponse, request.validate_only
    )
    return incremental.IncrementalAlterConfigsResponse(responses=responses)


@in_steps(forwarded=True)
def handle_alter_configs(
    node: Node, context: RequestContext, request: full.AlterConfigsRequest
) -> Job[full.AlterConfigsResponse]:
    """Replace all configs of a resource by those of the request."""

    def alter(row: full.AlterConfigsResource) -> Job[None]:
        kind, name = row.resource_type, row.resource_name
        _check_form(row.configs, [config.name for config in row.configs if config.value is None])
        given = {config.name: config.value or "" for config in row.configs}
        present = _present(node, context, kind, name)
        if kind == Kind.BROKER:
            _check_broker(node, name, given)
        changes: Changes = {key: None for key in present if key not in given}
        yield from changing(node, kind, name, {**changes, **given}, request.validate_only)

    responses = yield from _alter_all(
        node, request.resources, alter, full.AlterConfigsResourceResponse, request.validate_only
    )
    return full.AlterConfigsResponse(responses=responses)


def _alter_all(
    node: Node,
    rows: Sequence[Row],
    alter: Callable[[Row], Job[None]],
    answer: Callable[[int, str | None, int, str], Answer],
    validate_only: bool,
) -> Job[list[Answer]]:
    """The answers, one for each resource. Either all changes of a resource take effect, or no change does."""
    answers: list[Answer] = []
    times = yield from counting((row.resource_type, row.resource_name) for row in rows)
    changes = 0
    for row in rows:
        changes += len(row.configs)
        yield None
    too_many = changes > MAX_CHANGES
    for row in rows:
        yield None
        kind, name = row.resource_type, row.resource_name
        try:
            if too_many:
                raise ApiError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_CHANGES)
            if times[kind, name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            yield from alter(row)
        except ApiError as refusal:
            answers.append(answer(refusal.error_code, refusal.message, kind, name))
        else:
            answers.append(answer(0, None, kind, name))
    if not validate_only:
        yield from until_durable(node, answers)
    return answers


def _check_form(
    configs: Sequence[incremental.AlterableConfig] | Sequence[full.AlterableConfig], nulls: Sequence[str]
) -> None:
    if len({config.name for config in configs}) < len(configs):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def _present(node: Node, context: RequestContext, kind: int, name: str) -> Mapping[str, str]:
    if kind not in (Kind.TOPIC, Kind.BROKER, Kind.CLIENT_METRICS, Kind.GROUP):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    check_authorized(node, context, Operation.ALTER_CONFIGS, kind, name)
    if kind == Kind.BROKER:
        check_altered_broker(name, node.cluster.node_id)
    return node.topics.state.resource_configs(kind, name)


def _check_broker(node: Node, name: str, after: Mapping[str, str]) -> None:
    if len(after) > MAX_BROKER_PROPERTIES:
        what = f"A broker may have {MAX_BROKER_PROPERTIES} properties set at most, but {len(after)} would be."
        raise ApiError(ErrorCode.POLICY_VIOLATION, what)
    if sum(len(key) + len(text) for key, text in after.items()) > MAX_BROKER_CHARACTERS:
        what = f"The properties set on a broker may have {MAX_BROKER_CHARACTERS} characters at most."
        raise ApiError(ErrorCode.POLICY_VIOLATION, what)
    try:
        live.check(after, node.config, for_all=not name)
    except InvalidProperty as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error


def changing(node: Node, kind: int, name: str, changes: Changes, validate_only: bool) -> Job[None]:
    """Change the configs of a resource, if they are valid. Raises `ApiError`."""
    present = node.topics.state.resource_configs(kind, name)
    after = {key: text for key, text in {**present, **changes}.items() if text is not None}
    try:
        if kind == Kind.TOPIC:
            _check_topic(node, name, after)
        elif kind == Kind.BROKER:
            _check_min_isr(name, changes, present)
        elif kind == Kind.CLIENT_METRICS:
            for _ in resource_configs.validate_client_metrics(name, after, lambda text: pattern_error(text) is None):
                yield None
        else:
            _check_group(node, name, after)
    except InvalidRequest as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
    except InvalidProperty as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if kind in (Kind.CLIENT_METRICS, Kind.GROUP) and not present and len(node.topics.state.configs) >= MAX_RESOURCES:
        what = f"There are {MAX_RESOURCES} resources with configs already: remove configs of another first."
        raise ApiError(ErrorCode.POLICY_VIOLATION, what)
    new = {key: text for key, text in changes.items() if text != present.get(key)}
    if kind in (Kind.CLIENT_METRICS, Kind.GROUP) and after:
        more = sum(len(key) + len(text or "") for key, text in new.items()) + (0 if present else len(name))
        if node.topics.state.resource_characters + more > MAX_RESOURCE_CHARACTERS:
            what = f"Groups and client metrics with configs may have {MAX_RESOURCE_CHARACTERS} characters at most."
            raise ApiError(ErrorCode.POLICY_VIOLATION, what)
    if new and not validate_only:
        yield from node.topics.setting_configs(kind, name, new)


def _check_topic(node: Node, name: str, after: Mapping[str, str]) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    fault = name_fault(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
    node.topics.configs.check(after)
    if name not in node.topics.by_name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if name in EVENTS_OF and "compact" in after.get(CLEANUP_POLICY, ""):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} is a history: it cannot be compacted")


def _check_group(node: Node, name: str, after: Mapping[str, str]) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    resource_configs.validate_group(after, node.config.value)


def _check_min_isr(name: str, changes: Changes, present: Mapping[str, str]) -> None:
    """Raise `ApiError` if a change gives brokers different values of `min.insync.replicas`. Every new cluster has
    eligible leader replicas (KIP-966), which need one value.
    """
    if MIN_INSYNC_REPLICAS not in changes:
        return
    what = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
    if name:
        raise ApiError(ErrorCode.INVALID_CONFIG, what)
    if changes[MIN_INSYNC_REPLICAS] is None and MIN_INSYNC_REPLICAS in present:
        what = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        raise ApiError(ErrorCode.INVALID_CONFIG, what)
