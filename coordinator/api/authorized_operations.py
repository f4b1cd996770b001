"""The operations that a principal may do to a resource, as a bit field (KIP-430)."""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.context import CLUSTER, TOPIC, Operation, RequestContext, Resource, authorize

NOT_ASKED: Final = -(2**31)
"""What stands in an answer that does not tell."""

_OF = {
    TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""What can be done to each kind of resource (AclEntry.supportedOperations)."""


def authorized_operations(context: RequestContext, resource: Resource) -> int:
    """One bit, 1 << code, for each operation allowed."""
    return sum(1 << operation for operation in _OF[resource.kind] if authorize(context, operation, resource))
