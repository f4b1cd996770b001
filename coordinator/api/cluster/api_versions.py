"""ApiVersions (key 18): the APIs that this node serves. Nearly every connection begins with this request."""

from __future__ import annotations

import re
from typing import Final

from muster.coordinator.api.context import (
    RequestContext,
    api_versions_names_software,
    api_versions_shows_features_from_zero,
)
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.registry import METRICS_APIS, SERVED
from muster.coordinator.topics.features import FEATURES, finalized
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The valid form of a client's name and version (KIP-511)."""


_WITH_RECEIVER: Final = tuple(SERVED.values())
_WITHOUT_RECEIVER: Final = tuple(api for api in _WITH_RECEIVER if api.key not in METRICS_APIS)
_ANY_NODE: Final = -1
"""The node id of a client that names no node."""


def handle_api_versions(node: Node, context: RequestContext, request: ApiVersionsRequest, respond: Respond) -> None:
    """Answer with the APIs of `registry` and Kafka's features. INVALID_REQUEST: the client's name or version is bad."""
    if api_versions_names_software(context.api_version):
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            respond(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        error_code = _wrong_server(node, request)
        if error_code:
            respond(ApiVersionsResponse(error_code=error_code))
            return
        context.channel.software_name = name
        context.channel.software_version = version
    lowest = 0 if api_versions_shows_features_from_zero(context.api_version) else 1
    apis = _WITHOUT_RECEIVER if node.client_reports is None else _WITH_RECEIVER
    respond(
        ApiVersionsResponse(
            api_keys=[ApiVersion(api.key, api.min_version, api.max_version) for api in apis],
            supported_features=[
                SupportedFeatureKey(name, feature.lowest, feature.highest)
                for name, feature in FEATURES.items()
                if feature.lowest >= lowest
            ],
            finalized_features_epoch=node.topics.image.version,
            finalized_features=[
                FinalizedFeatureKey(name, level, level) for name, level in finalized(node.topics.state.features)
            ],
        )
    )


def _wrong_server(node: Node, request: ApiVersionsRequest) -> int:
    """Whether the client meant another cluster or node, as after a change of addresses (KIP-1242): the error, or 0."""
    cluster_id, node_id = request.cluster_id, request.node_id
    if cluster_id is None and node_id == _ANY_NODE:
        return 0
    if cluster_id is None or node_id == _ANY_NODE:
        return ErrorCode.INVALID_REQUEST
    here = node.cluster
    return 0 if (cluster_id, node_id) == (here.cluster_id, here.node_id) else ErrorCode.REBOOTSTRAP_REQUIRED


def unsupported_version() -> ApiVersionsResponse:
    """The answer to an ApiVersions request of an unknown version, which is sent as version 0 (KIP-511)."""
    own = SERVED[ApiKey.API_VERSIONS]
    row = ApiVersion(own.key, own.min_version, own.max_version)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])
