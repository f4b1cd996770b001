"""The feature levels of a cluster: known levels, and possible changes (KIP-584, KIP-778, KIP-1022).

Pure. `MetadataState.features` has the levels that are in the metadata log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode

METADATA, GROUP, TRANSACTION, KRAFT = "metadata.version", "group.version", "transaction.version", "kraft.version"
SHARE, STREAMS = "share.version", "streams.version"
METADATA_VERSION: Final = 33
"""The metadata.version of Kafka 4.4 (4.4-IV2), which is finalized in a new metadata log."""
CIDR_HOSTS: Final = 32
"""The first metadata.version in which hosts of access control entries may be CIDR ranges (KIP-1276)."""
UNREGISTERED_CONTROLLERS: Final = 33
"""The first metadata.version in which controllers can be unregistered (UnregisterController)."""


class Feature(NamedTuple):
    """The lowest and the highest known level. `first`: the level if the metadata log has no record of the feature."""

    lowest: int
    highest: int
    first: int


FEATURES: Final[Mapping[str, Feature]] = {
    # Features that Muster does not serve stay at 0. Clients take group.version 1 for KIP-848 groups.
    # share.version 1 is KIP-932, 2 is KIP-1191. Version 1 of streams.version is KIP-1071.
    # transaction.version 2 is KIP-890.
    "eligible.leader.replicas.version": Feature(0, 0, 0),
    GROUP: Feature(0, 1, 1),
    KRAFT: Feature(0, 1, 0),
    METADATA: Feature(7, METADATA_VERSION, METADATA_VERSION),
    SHARE: Feature(0, 2, 2),
    STREAMS: Feature(0, 1, 1),
    TRANSACTION: Feature(0, 2, 2),
}
_UNKNOWN: Final = Feature(0, 0, 0)

_NEW_RECORDS: Final = frozenset((8, 11, 13, 14, 15, 17, 23, 30, 32, 33))
"""The versions that changed records of the metadata log. A downgrade from such a version is refused."""

_NOT_DOWN: Final = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)
_LOSSY: Final = "Refusing to perform the requested downgrade because it might delete metadata information."
_UNSAFE: Final = "Unsafe metadata downgrade is not supported in this version."

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""The codes of Kafka's FeatureUpdate.UpgradeType."""


def level_of(features: Mapping[str, int], name: str) -> int:
    """The level in force. `features`: the levels in the metadata log."""
    return features.get(name, FEATURES.get(name, _UNKNOWN).first)


def finalized(features: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The features whose level is above 0, with this level. `features`: as in `level_of`."""
    for name, feature in FEATURES.items():
        level = features.get(name, feature.first)
        if level > 0:
            yield name, level


def check(features: Mapping[str, int], node_id: int, name: str, level: int, upgrade_type: int) -> None:
    """Raise `ApiError` if the feature cannot get this level, in the words of Kafka's FeatureControlManager."""
    now = level_of(features, name)
    fault = _fault(FEATURES.get(name, _UNKNOWN), node_id, now, level, upgrade_type)
    if fault is None and name not in FEATURES:
        fault = f"Feature {name} not found."
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {fault}")
    if name == KRAFT and level > now:
        why = f"Invalid upgrade of {name} to KRAFT_VERSION_{level} because not all of the voters support it"
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, why)
    if name == METADATA and not _NEW_RECORDS.isdisjoint(range(level + 1, now + 1)):
        why = _UNSAFE if upgrade_type == UNSAFE_DOWNGRADE else _LOSSY
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION, f"Unsupported metadata.version downgrade from {now} to {level}. {why}"
        )


def _fault(feature: Feature, node_id: int, now: int, level: int, upgrade_type: int) -> str | None:
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if not feature.lowest <= level <= feature.highest:
        if not feature.highest:
            return f"Local controller {node_id} does not support this feature."
        return f"Local controller {node_id} only supports versions {feature.lowest}-{feature.highest}"
    if level < now and upgrade_type == UPGRADE:
        return _NOT_DOWN
    return "Can't downgrade to a newer version." if level > now and upgrade_type != UPGRADE else None
