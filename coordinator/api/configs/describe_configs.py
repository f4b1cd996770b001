"""DescribeConfigs: the configs of topics, of this broker and of groups, with the source of each value (KIP-226).
ListConfigResources: the resources that have configs (KIP-1142).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from muster.coordinator.api.configs import client_reports, resources, share_figures
from muster.coordinator.api.configs.resources import (
    Kind,
    check_authorized,
    check_described_broker,
    check_described_loggers,
)
from muster.coordinator.api.context import RequestContext, lists_all_config_resources
from muster.coordinator.api.many_rows import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.properties import describe
from muster.coordinator.properties.describe import SOURCE_LOGGER, Entry
from muster.coordinator.properties.lookup import documentation as all_documentation
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.share.figures import CONFIG as SHARE_FIGURES
from muster.coordinator.system.jobs import Job
from muster.coordinator.telemetry.reports import CONFIG as REPORTS
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import name_fault
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from muster.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_KINDS: Final = {Kind.TOPIC: "topic", Kind.BROKER: "broker", Kind.CLIENT_METRICS: "client-metrics", Kind.GROUP: "group"}
_MAX_KNOWN: Final = 1_000
"""The most distinct resources that are looked up only once, however often a request names them."""
_ROW_BYTES: Final = 16
_RESOURCE_ROW_BYTES: Final = 5
_ALL = (Kind.TOPIC, Kind.BROKER, Kind.BROKER_LOGGER, Kind.CLIENT_METRICS, Kind.GROUP)


@in_steps
def handle_describe_configs(
    node: Node, context: RequestContext, request: DescribeConfigsRequest
) -> Job[DescribeConfigsResponse]:
    """Answer a DescribeConfigs with one row for each resource."""
    answer_size = AnswerSize(node, context)
    results: list[DescribeConfigsResult] = []
    known: dict[tuple[int, str, frozenset[str]], tuple[DescribeConfigsResult, int]] = {}
    for row in request.resources:
        # as on Kafka, a resource that is named several times has as many rows, but is looked up once
        asked = row.resource_type, row.resource_name, frozenset(row.configuration_keys or ())
        found = known.get(asked)
        if found is None:
            result = yield from _result(node, context, request, row, asked[2])
            found = result, _size(result)
            if len(known) < _MAX_KNOWN:
                known[asked] = found
        if answer_size.add(found[1]):
            results.append(found[0])
            for _ in found[0].configs:
                yield None  # one step for each row that is encoded
        else:
            results.append(DescribeConfigsResult(TOO_LARGE, TOO_LARGE_TEXT, row.resource_type, row.resource_name))
        yield answer_size.pause()
    return DescribeConfigsResponse(results=results)


def _result(
    node: Node,
    context: RequestContext,
    request: DescribeConfigsRequest,
    row: DescribeConfigsResource,
    keys: Collection[str],
) -> Job[DescribeConfigsResult]:
    try:
        entries = _entries(node, context, row)
        if row.resource_type == Kind.CLIENT_METRICS and REPORTS in keys:
            entries += yield from client_reports.client_reports(node, row.resource_name)
        if row.resource_type == Kind.GROUP and SHARE_FIGURES in keys:
            entries += yield from share_figures.share_figures(node, context, row.resource_name)
    except ApiError as refusal:
        return DescribeConfigsResult(refusal.error_code, refusal.message or "", row.resource_type, row.resource_name)
    kind = _KINDS.get(row.resource_type) if request.include_documentation else None
    documentation = {} if kind is None else all_documentation(kind)
    configs = _described(entries, keys or None, request.include_synonyms, documentation)
    return DescribeConfigsResult(0, "", row.resource_type, row.resource_name, configs)


def _size(result: DescribeConfigsResult) -> int:
    return (
        _ROW_BYTES
        + len(result.resource_name)
        + len(result.error_message or "")
        + sum(
            _ROW_BYTES
            + len(one.name)
            + len(one.value or "")
            + len(one.documentation or "")
            + sum(_ROW_BYTES + len(synonym.name) + len(synonym.value or "") for synonym in one.synonyms)
            for one in result.configs
        )
    )


def _entries(node: Node, context: RequestContext, row: DescribeConfigsResource) -> list[Entry]:
    kind, name = row.resource_type, row.resource_name
    check_authorized(node, context, Operation.DESCRIBE_CONFIGS, kind, name)
    if kind == Kind.TOPIC:
        return _topic_entries(node, name)
    if kind == Kind.GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe.group(node.topics.state.resource_configs(kind, name), node.config)
    if kind == Kind.BROKER:
        if not name:
            return describe.cluster_wide(node.config)
        check_described_broker(name, node.cluster.node_id)
        return describe.broker(node.config)
    if kind == Kind.BROKER_LOGGER:
        check_described_loggers(name, node.cluster.node_id)
        return describe.loggers(resources.logger_levels())
    if kind == Kind.CLIENT_METRICS:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe.client_metrics(node.topics.state.resource_configs(kind, name))
    raise ApiError(ErrorCode.INVALID_REQUEST, error_message(ErrorCode.INVALID_REQUEST))


def _topic_entries(node: Node, name: str) -> list[Entry]:
    fault = name_fault(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
    if name not in node.topics.by_name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe.topic(node.topics.state.topic_configs(name), node.config)


def _described(
    entries: Iterable[Entry], keys: Collection[str] | None, with_synonyms: bool, documentation: Mapping[str, str]
) -> list[DescribeConfigsResourceResult]:
    """The rows of the named entries (None: all entries), with synonyms and documentation if requested."""
    return [
        DescribeConfigsResourceResult(
            entry.name,
            entry.value,
            entry.read_only,
            entry.source,
            entry.sensitive,
            [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if with_synonyms else (),
            entry.wire_type,
            documentation="" if entry.source == SOURCE_LOGGER else documentation.get(entry.name),
        )
        for entry in entries
        if keys is None or entry.name in keys
    ]


@in_steps
def handle_list_config_resources(
    node: Node, context: RequestContext, request: ListConfigResourcesRequest
) -> Job[ListConfigResourcesResponse]:
    """List the resources of the requested kinds, or of all kinds. Groups are listed if they have configs."""
    if not node.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    kinds: Collection[int] = frozenset(request.resource_types) or _ALL
    if not lists_all_config_resources(context.api_version):
        kinds = (Kind.CLIENT_METRICS,)
    if any(kind not in _ALL for kind in kinds):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = []
    names: Iterable[str]
    answer_size = AnswerSize(node, context)
    for kind in _ALL:
        if kind not in kinds:
            continue
        if kind == Kind.TOPIC:
            names = (topic.name for topic in node.topics.open.walk())
        elif kind in (Kind.BROKER, Kind.BROKER_LOGGER):
            names = [str(broker_id) for broker_id in node.cluster.brokers]
        else:
            names = node.topics.state.resources(kind)
        for name in names:
            if not answer_size.add(_RESOURCE_ROW_BYTES + len(name)):
                return ListConfigResourcesResponse(error_code=TOO_LARGE)
            found.append(ConfigResource(name, kind))
            yield answer_size.pause()
    return ListConfigResourcesResponse(config_resources=found)
