"""A broker that serves what a release of Kafka served, and no more: `kversion` for any client.

For each release, `releases.json` has the highest version of each API of its brokers, and the levels of its features.
The file is made from Kafka's own jars (tools/releases). Features that an administrator had to enable are left out:
KIP-848 before 4.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, Final

from muster.coordinator.api.layers import CloseConnection
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from muster.testcontrol.checks import sentence
from muster.testcontrol.errors import WrongFault
from muster.testcontrol.faults.actions import Action, Flow, Proceed, Respond

_LISTS_ITSELF: Final = 3
"""From this version of ApiVersions on, a broker answers an unknown version with the versions that it knows (KIP-511).
"""


@cache
def releases() -> Mapping[str, Any]:
    """The releases, oldest first; each has `versions` by API key (as text), and `features` by name."""
    table: dict[str, Any] = json.loads(files(__package__).joinpath("releases.json").read_text(encoding="utf-8"))
    return table


@dataclass(frozen=True)
class OlderBroker(Action):
    """The broker serves what this release served. The broker's features are off, or at the levels of that release."""

    release: str
    name: ClassVar[str] = "older-broker"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.release not in releases():
            raise WrongFault(sentence("then: release", self.release, f"one of {', '.join(releases())}"))

    def _most(self, key: int) -> int:
        return int(releases()[self.release]["versions"].get(str(key), -1))

    def before(self, flow: Flow, proceed: Proceed) -> None:
        request = flow.request
        most = self._most(request.api_key)
        if request.version <= most:
            proceed()
        elif request.api_key == ApiKey.API_VERSIONS:
            # Kafka answers an unknown version in version 0, which every client reads
            flow.exchange = flow.exchange.in_version(0)
            rows = [ApiVersion(ApiKey.API_VERSIONS, 0, most)] if most >= _LISTS_ITSELF else []
            flow.answer(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=rows))
        else:
            facts = flow.exchange.route.facts()
            flow.exchange.cut(CloseConnection(f"Kafka {self.release} does not serve this version", **facts))

    def after(self, flow: Flow, response: Message | None, proceed: Respond) -> None:
        if isinstance(response, ApiVersionsResponse) and response.error_code == ErrorCode.NONE:
            response = self._lowered(response)
        proceed(response)

    def _lowered(self, response: ApiVersionsResponse) -> ApiVersionsResponse:
        features = releases()[self.release]["features"]
        rows = []
        for row in response.api_keys:
            most = min(row.max_version, self._most(row.api_key))
            if most >= row.min_version:
                rows.append(ApiVersion(row.api_key, row.min_version, most))
        supported = [
            SupportedFeatureKey(row.name, row.min_version, min(row.max_version, features[row.name]))
            for row in response.supported_features
            if row.name in features
        ]
        finalized = []
        for one in response.finalized_features:
            if one.name in features:
                level = min(one.max_version_level, features[one.name])
                finalized.append(FinalizedFeatureKey(one.name, level, level))
        return ApiVersionsResponse(
            api_keys=rows,
            supported_features=supported,
            finalized_features_epoch=response.finalized_features_epoch if finalized else -1,
            finalized_features=finalized,
        )

    def words(self) -> str:
        return f"served as by Kafka {self.release}"
