"""GetTelemetrySubscriptions and PushTelemetry (KIP-714): clients ask which metrics to push, and push them.

Kafka asks no authorizer for these requests. The metrics go to `Node.client_reports`, Muster's receiver of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from muster.coordinator.api.configs.resources import Kind
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.system.jobs import Job, OffloadedWork
from muster.coordinator.system.uuids import as_text
from muster.coordinator.telemetry.client_instances import (
    ACCEPTED_COMPRESSION,
    ClientInstance,
    ClientInstances,
    is_valid_id,
    lifetime_ms,
)
from muster.coordinator.telemetry.reports import MalformedMetrics
from muster.coordinator.telemetry.subscriptions import (
    ClientFacts,
    Requested,
    Subscription,
    is_match,
    read_subscription,
    requested,
)
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from muster.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from muster.coordinator.telemetry.reports import Pushed

_UNKNOWN_SOFTWARE = "unknown"


@in_steps
def handle_get_telemetry_subscriptions(
    node: Node, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> Job[GetTelemetrySubscriptionsResponse]:
    """Answer which metrics a client is to push, and how often. A client without an id gets an id."""
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = node.draw_uuid()
    instance = yield from _instance(node, context, instance_id)
    error_code = instance.check_get(node.clock.mono_ms())
    if error_code:
        return GetTelemetrySubscriptionsResponse(error_code=error_code)
    wanted = instance.requested
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=_max_bytes(node),
        delta_temporality=True,
        requested_metrics=wanted.metrics,
    )


@in_steps(changes=True)
def handle_push_telemetry(
    node: Node, context: RequestContext, request: PushTelemetryRequest
) -> Job[PushTelemetryResponse]:
    """Take the metrics of a client. A thread decodes them."""
    if not is_valid_id(request.client_instance_id):
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    instance = yield from _instance(node, context, request.client_instance_id)
    max_bytes = _max_bytes(node)
    error_code = instance.check_push(request, node.clock.mono_ms(), max_bytes)
    if not error_code and request.metrics and node.client_reports is not None:
        try:
            pushed = yield OffloadedWork(partial(_decode, request.compression_type, request.metrics, max_bytes))
        except MalformedMetrics:
            error_code = instance.last_error = ErrorCode.INVALID_RECORD
        else:
            kept_ms = lifetime_ms(instance.requested.interval_ms)
            facts = _facts(context, request.client_instance_id)
            node.client_reports.add(facts, pushed, node.clock.now(), kept_ms, has_ended=request.terminating)
    return PushTelemetryResponse(error_code=error_code)


def _decode(codec: int, data: bytes, max_bytes: int) -> Pushed:
    # imported in the thread, because the import takes longer than a usual request
    from muster.coordinator.telemetry.otlp import decode

    return decode(codec, data, max_bytes)


def _max_bytes(node: Node) -> int:
    value = node.config.value("telemetry.max.bytes")
    return value if isinstance(value, int) else 0


def _instance(node: Node, context: RequestContext, instance_id: bytes) -> Job[ClientInstance]:
    """The instance of a client. If the subscriptions have changed since its making, a new instance is made."""
    instances = node.client_instances
    if instances is None:
        instances = node.client_instances = ClientInstances()
    version = node.topics.state.client_metrics_version
    instance = instances.find(instance_id, node.clock.mono_ms())
    if instance is None or instance.version < version:
        subscriptions = yield from _subscriptions(node, instances, version)
        wanted = yield from _requested(subscriptions, instance_id, _facts(context, instance_id))
        instance, channel = ClientInstance(wanted, version), context.channel
        if instances.add(instance_id, instance, channel, node.clock.mono_ms()):
            channel.on_close(partial(instances.forget, channel))
    return instance


def _subscriptions(node: Node, instances: ClientInstances, version: int) -> Job[list[Subscription]]:
    if instances.version != version:
        state = node.topics.state
        found = []
        for name in state.resources(Kind.CLIENT_METRICS):
            found.append(read_subscription(state.resource_configs(Kind.CLIENT_METRICS, name)))
            yield None
        instances.version, instances.subscriptions = version, found
    return instances.subscriptions


def _requested(subscriptions: list[Subscription], instance_id: bytes, client: ClientFacts) -> Job[Requested]:
    matching = []
    for one in subscriptions:
        yield None
        for name, pattern in one.match.items():
            if not is_match(name, pattern, client):
                break
            yield None
        else:
            matching.append(one)
    return requested(instance_id, matching)


def _facts(context: RequestContext, instance_id: bytes) -> ClientFacts:
    channel = context.channel
    return ClientFacts(
        as_text(instance_id),
        context.client.client_id,
        channel.software_name or _UNKNOWN_SOFTWARE,
        channel.software_version or _UNKNOWN_SOFTWARE,
        channel.host.lstrip("/"),
        channel.peer.rpartition(":")[2],
    )
