"""UpdateFeatures (KIP-584, KIP-778): change the feature levels of the cluster."""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.cluster.describe_cluster import may_alter_cluster
from muster.coordinator.api.context import RequestContext, features_have_one_error
from muster.coordinator.api.many_rows import in_hash_order, until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics import features
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.feature_level_record import FeatureLevelRecord
from muster.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_ALL_FAILED: Final = "The update failed for all features since the following feature had an error: "


@in_steps(forwarded=True)
def handle_update_features(
    node: Node, context: RequestContext, request: UpdateFeaturesRequest
) -> Job[UpdateFeaturesResponse]:
    """Give the features the levels of the request: all of them, or none. `validate_only` changes nothing."""
    if not may_alter_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=code, error_message=error_message(code))
    updates: dict[str, FeatureUpdateKey] = {}
    for row in request.feature_updates:
        updates[row.feature] = row
        yield None
    answer = UpdateFeaturesResponse(error_message=None)
    try:
        records = _records(node, updates)
        if records and not request.validate_only:
            yield from node.topics.writing(records)
    except ApiError as refusal:
        answer.error_code = refusal.error_code
        answer.error_message = f"{_ALL_FAILED}{refusal.message}"
        return answer
    yield from until_durable(node, [answer])
    if not features_have_one_error(context.api_version):
        answer.results = [UpdatableFeatureResult(name, ErrorCode.NONE, "NONE") for name in updates]
    return answer


def _records(node: Node, updates: dict[str, FeatureUpdateKey]) -> list[Message]:
    """The records of the change. The first update that is impossible raises `ApiError`; Kafka has a hash order."""
    levels = node.topics.state.features
    records: list[Message] = []
    for name in in_hash_order(updates):
        row = updates[name]
        features.check(levels, node.cluster.node_id, name, row.max_version_level, row.upgrade_type)
        if name != features.KRAFT:
            records.append(FeatureLevelRecord(name, row.max_version_level))
    return records
