"""The authorizer answers Kafka's question: may this principal (host, listener) do this operation to this resource?

Every handler asks its node's authorizer: `AllowAll`, as on Kafka by default, or `standard_authorizer`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final, NamedTuple, Protocol


class KafkaPrincipal(NamedTuple):
    """Kafka's KafkaPrincipal. ACLs and super.users contain the text of a principal."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


USER: Final = "User"
"""The only principal type of Kafka."""
ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of a connection that did not authenticate."""


CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of the type CLUSTER (Kafka's Resource.CLUSTER_NAME)."""
OPERATIONS_NOT_ASKED: Final = -(2**31)
"""The value of the operations in an answer, when the client did not ask for them."""


class Operation:
    """Kafka's AclOperation codes."""

    READ: Final = 3
    WRITE: Final = 4
    CREATE: Final = 5
    DELETE: Final = 6
    ALTER: Final = 7
    DESCRIBE: Final = 8
    CLUSTER_ACTION: Final = 9
    DESCRIBE_CONFIGS: Final = 10
    ALTER_CONFIGS: Final = 11
    IDEMPOTENT_WRITE: Final = 12
    CREATE_TOKENS: Final = 13
    DESCRIBE_TOKENS: Final = 14


class ResourceType:
    """Kafka's ResourceType codes."""

    TOPIC: Final = 2
    GROUP: Final = 3
    CLUSTER: Final = 4
    TRANSACTIONAL_ID: Final = 5
    DELEGATION_TOKEN: Final = 6
    USER: Final = 7


class Requester(Protocol):
    """The client that asks, as an authorizer sees it (for instance `api.context.RequestContext`)."""

    @property
    def principal(self) -> KafkaPrincipal:
        """The principal of the client, as its connection knows it now."""

    @property
    def host(self) -> str:
        """The address of the client, with a "/" before it."""

    @property
    def listener(self) -> str:
        """The name of the client's listener."""


class Authorizer(Protocol):
    """Decides whether a requester may do an operation to a resource. `version` changes when an answer may change."""

    version: int

    def allows(
        self, requester: Requester, operation: int, resource_type: int, name: str, *, log_denied: bool = True
    ) -> bool:
        """Whether the requester may do this to a resource. `log_denied`: the requester has named this resource."""

    def allowed(
        self,
        requester: Requester,
        operation: int,
        resource_type: int,
        names: Iterable[str],
        *,
        log_denied: bool = True,
    ) -> Container[str]:
        """The names for which `allows` is true. Only these `names` may be looked up in the result."""

    def allows_some(self, requester: Requester, operation: int, resource_type: int) -> bool:
        """Whether the requester may do this to any resource of this type (authorizeByResourceType)."""


class AllowAll:
    """The authorizer if none is configured: everything is allowed. `AllowAll` is also the set of all names."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0

    def __contains__(self, name: object) -> bool:
        return True

    def allows(
        self, requester: Requester, operation: int, resource_type: int, name: str, *, log_denied: bool = True
    ) -> bool:
        return True

    def allowed(
        self,
        requester: Requester,
        operation: int,
        resource_type: int,
        names: Iterable[str],
        *,
        log_denied: bool = True,
    ) -> Container[str]:
        return self

    def allows_some(self, requester: Requester, operation: int, resource_type: int) -> bool:
        return True


_O = Operation
SUPPORTED: Final = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip
"""The operations of each type of resource (AclEntry.supportedOperations)."""


def authorized_operations(authorizer: Authorizer, requester: Requester, resource_type: int, name: str) -> int:
    """The operations that a requester may do to a resource, one bit (1 << code) for each (KIP-430)."""
    operations = SUPPORTED[resource_type]
    return sum(
        1 << one for one in operations if authorizer.allows(requester, one, resource_type, name, log_denied=False)
    )


def may_create_topic(authorizer: Authorizer, requester: Requester, name: str) -> bool:
    """Whether the requester may create this topic. Permission to create any topic of the cluster is enough."""
    of_cluster = Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME
    return authorizer.allows(requester, *of_cluster, log_denied=False) or authorizer.allows(
        requester, Operation.CREATE, ResourceType.TOPIC, name
    )


def cluster_operations(authorizer: Authorizer, requester: Requester, is_asked: bool) -> int:
    """The operations on the cluster, if the client asked; 0 if it may not describe the cluster, as on Kafka."""
    if not is_asked:
        return OPERATIONS_NOT_ASKED
    if not authorizer.allows(requester, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(authorizer, requester, ResourceType.CLUSTER, CLUSTER_NAME)
