"""The identity of a data directory: `meta.properties` is read, checked and written (Kafka: MetaProperties).

A damaged value on which a log depends is refused. Any other damaged value is written again, and the old file is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from muster.coordinator.log import checkpoints
from muster.coordinator.log.errors import MalformedCheckpoint, WrongDirectory
from muster.coordinator.log.storage.interfaces import Storage

DAMAGED_SUFFIX: Final = ".damaged"
_VERSION = re.compile(r"[01]")
_NEWER_VERSION = re.compile(r"[2-9]|[1-9][0-9]{1,8}", re.ASCII)
_CLUSTER_ID = re.compile(r"[!-~]{0,255}", re.ASCII)
_NODE_ID = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_WHAT_TO_DO: Final = (
    "restore it from a backup, or remove it if the directory belongs to this node, and a new one is written"
)
_logger = structlog.get_logger("muster.log")


class Identity(NamedTuple):
    """The cluster, node and directory in `meta.properties`."""

    cluster_id: str
    node_id: int
    directory_id: str


def identify(
    storage: Storage, cluster_id: str | None, node_id: int, draw_uuid: Callable[[], bytes], *, has_logs: bool
) -> Identity:
    """Return the identity of a data directory. Missing values are drawn and written.

    `cluster_id`: the expected cluster, or None. Raises WrongDirectory, MalformedCheckpoint or OSError.
    """
    path = f"{storage.root}/{checkpoints.META_PROPERTIES}"
    data = storage.load(checkpoints.META_PROPERTIES)
    if data is None:
        if has_logs:
            _report(
                path,
                "the file is missing, although logs exist: a new file is written, if necessary with a new id",
            )
        return _write(storage, cluster_id or checkpoints.encode_uuid(draw_uuid()), node_id, draw_uuid)
    properties = _checked(path, data)
    found, node = properties.get("cluster.id", ""), _node_of(properties)
    if found and cluster_id is not None and found != cluster_id:
        raise WrongDirectory(f"{path} belongs to the cluster {found}, not to {cluster_id}")
    if node != str(node_id):
        raise WrongDirectory(f"{path} belongs to the node {node}, not to {node_id}: set node.id={node}")
    directory_id = properties.get("directory.id")
    fault = _fault_of(found, directory_id)
    if directory_id is not None and not fault:
        return Identity(found, node_id, directory_id)
    if fault:
        # no log depends on the directory id, but a Kafka controller would have to know the new id
        storage.save(checkpoints.META_PROPERTIES + DAMAGED_SUFFIX, data, sync=True)
        _report(path, f"{fault}; the old file is kept as {checkpoints.META_PROPERTIES}{DAMAGED_SUFFIX}")
    return _write(storage, found or cluster_id or checkpoints.encode_uuid(draw_uuid()), node_id, draw_uuid)


def problem_of(path: str, data: bytes) -> str:
    """Return the fault that the next start repairs, or "". Raises MalformedCheckpoint for another fault."""
    properties = _checked(path, data)
    return _fault_of(properties.get("cluster.id", ""), properties.get("directory.id"))


def _node_of(properties: dict[str, str]) -> str:
    return properties.get("node.id", properties.get("broker.id", ""))


def _fault_of(cluster_id: str, directory_id: str | None) -> str:
    """Return the fault that a start can repair, or ""."""
    if directory_id is not None:
        try:
            checkpoints.decode_uuid(directory_id)
        except ValueError:
            return f"directory.id is {directory_id[:60]!r}, and not the base64 of 16 bytes: a new one is drawn"
    return "" if cluster_id else "it has no cluster.id: a new id is drawn unless the property is set"


def _checked(path: str, data: bytes) -> dict[str, str]:
    """The properties in the file, with whose values a start can be made. Raises MalformedCheckpoint."""
    try:
        properties = checkpoints.decode_properties(path, data)
    except MalformedCheckpoint as error:
        raise MalformedCheckpoint(f"{error}: {_WHAT_TO_DO}") from error
    if not _node_of(properties):
        raise MalformedCheckpoint(f"{path} names no node.id, so it does not say whose the directory is: {_WHAT_TO_DO}")
    version = properties.get("version", "0")
    if _NEWER_VERSION.fullmatch(version):
        raise MalformedCheckpoint(
            f"{path} has version={version!r}, expected: 0 or 1: a newer Kafka or Muster wrote it; start that, or give "
            "another directory"
        )
    for name, value, pattern, expected in (
        ("node.id", _node_of(properties), _NODE_ID, "a number from 0 on"),
        ("version", version, _VERSION, "0 or 1"),
        ("cluster.id", properties.get("cluster.id", ""), _CLUSTER_ID, "letters, digits and signs of ASCII"),
    ):
        if not pattern.fullmatch(value):
            raise MalformedCheckpoint(f"{path} has {name}={value[:60]!r}, expected: {expected}: {_WHAT_TO_DO}")
    return properties


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


def _report(path: str, reason: str) -> None:
    _logger.warning("meta.properties was written again", path=path, reason=reason)
