"""Whose data directory it is: `meta.properties`, read, made sure of, and written (Kafka's MetaProperties).

A damaged value is refused with one sentence, or mended where nothing depends on it; the old file is kept then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from muster.coordinator.log.directory import checkpoints
from muster.coordinator.log.errors import MalformedCheckpoint, WrongDirectory
from muster.coordinator.log.storage.interfaces import Storage

DAMAGED_SUFFIX: Final = ".damaged"
_VERSIONS: Final = ("0", "1")
_CLUSTER_ID = re.compile(r"[!-~]{1,255}", re.ASCII)
_NODE_ID = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_logger = structlog.get_logger("muster.log")


class Identity(NamedTuple):
    """Whose data directory it is (`meta.properties`)."""

    cluster_id: str
    node_id: int
    directory_id: str


def identify(
    storage: Storage, cluster_id: str | None, node_id: int, draw_uuid: Callable[[], bytes], *, has_logs: bool
) -> Identity:
    """Whose a data directory is; a new one, or what misses in an old one, is drawn and written.

    `cluster_id`: what it must be, or None for any; `has_logs`: there are partitions in it. Raises WrongDirectory,
    MalformedCheckpoint or OSError.
    """
    path = f"{storage.root}/{checkpoints.META_PROPERTIES}"
    data = storage.load(checkpoints.META_PROPERTIES)
    if data is None:
        if has_logs:
            _tell(
                path,
                "it is not there, although there are logs: it is written anew, with a new cluster.id if none is set",
            )
        return _write(storage, cluster_id or checkpoints.encode_uuid(draw_uuid()), node_id, draw_uuid)
    properties = checkpoints.decode_properties(path, data)
    _check(path, properties)
    found = properties.get("cluster.id", "")
    node = properties.get("node.id", properties.get("broker.id", ""))
    if found and cluster_id is not None and found != cluster_id:
        raise WrongDirectory(f"{path} belongs to the cluster {found}, not to {cluster_id}")
    if node != str(node_id):
        raise WrongDirectory(f"{path} belongs to the node {node}, not to {node_id}: set node.id={node}")
    directory_id = properties.get("directory.id")
    fault = "" if found else "it names no cluster.id: a new one is drawn if none is set"
    if directory_id is not None:
        try:
            checkpoints.decode_uuid(directory_id)
        except ValueError:
            fault = f"directory.id is {directory_id[:60]!r}, and not the base64 of 16 bytes: a new one is drawn"
        else:
            if found:
                return Identity(found, node_id, directory_id)
    if fault:
        # no log depends on it; Kafka would have to be told of the new one
        storage.save(checkpoints.META_PROPERTIES + DAMAGED_SUFFIX, data, sync=True)
        _tell(path, f"{fault}; the old file is kept beside as {checkpoints.META_PROPERTIES}{DAMAGED_SUFFIX}")
    return _write(storage, found or cluster_id or checkpoints.encode_uuid(draw_uuid()), node_id, draw_uuid)


def _check(path: str, properties: dict[str, str]) -> None:
    """Raises MalformedCheckpoint for what nobody can guess."""
    node = properties.get("node.id", properties.get("broker.id", ""))
    what_to_do = (
        "restore it from a backup, or remove it if the directory belongs to this node, and a new one is written"
    )
    if not node:
        raise MalformedCheckpoint(f"{path} names no node.id, so it does not say whose the directory is: {what_to_do}")
    if not _NODE_ID.fullmatch(node):
        raise MalformedCheckpoint(f"{path} has node.id={node[:60]!r}, expected: a number from 0 on: {what_to_do}")
    version = properties.get("version", "0")
    if version not in _VERSIONS:
        raise MalformedCheckpoint(f"{path} has version={version[:60]!r}, expected: 0 or 1: {what_to_do}")
    cluster = properties.get("cluster.id", "")
    if cluster and not _CLUSTER_ID.fullmatch(cluster):
        raise MalformedCheckpoint(
            f"{path} has cluster.id={cluster[:60]!r}, expected: letters, digits and signs of ASCII: {what_to_do}"
        )


def _write(storage: Storage, cluster_id: str, node_id: int, draw_uuid: Callable[[], bytes]) -> Identity:
    identity = Identity(cluster_id, node_id, checkpoints.encode_uuid(draw_uuid()))
    text = {
        "cluster.id": identity.cluster_id,
        "directory.id": identity.directory_id,
        "node.id": str(node_id),
        "version": "1",
    }
    storage.save(checkpoints.META_PROPERTIES, checkpoints.encode_properties(text), sync=True)
    return identity


def _tell(path: str, reason: str) -> None:
    _logger.warning("meta.properties was written again", path=path, reason=reason)
