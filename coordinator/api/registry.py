"""The APIs that this node serves, their versions and their handlers.

An API outside of the table is neither advertised nor served. Version ranges are exactly those of Kafka 4.3.0. A
handler's module is imported at the first request for it. So a start does not load rarely used APIs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.system.lazy_import import lazy
from muster.protocol.message import Message

if TYPE_CHECKING:  # `lazy` loads these modules, and import-linter sees them here
    from muster.coordinator.api import client_quotas  # noqa: F401
    from muster.coordinator.api.acls import alter_acls, describe_acls  # noqa: F401
    from muster.coordinator.api.cluster import api_versions, describe_cluster, find_coordinator, leaders, metadata  # noqa: F401
    from muster.coordinator.api.configs import alter_configs, describe_configs  # noqa: F401
    from muster.coordinator.api.groups import (  # noqa: F401
        administration,
        consumer_groups,
        membership,
        offset_commit,
        offset_fetch,
    )
    from muster.coordinator.api.records import (  # noqa: F401
        describe_producers,
        fetch,
        offsets,
        produce,
    )
    from muster.coordinator.api.security import delegation_tokens, sasl, scram_credentials  # noqa: F401
    from muster.coordinator.api.topics import create_topics, delete_topics, describe_topic_partitions  # noqa: F401
    from muster.coordinator.api.transactions import administration as _  # noqa: F401
    from muster.coordinator.api.transactions import producers, txn_offset_commit  # noqa: F401

Handler = Callable[[Node, RequestContext, Any, Respond], Message | None]
"""handle_x(node, context, request, respond) returns its response, in the newest shape, and does not call `respond`. Or
it returns None and calls `respond` once, now or later.
"""


class ServedApi(NamedTuple):
    """One API: the advertised versions, the first version that is really served, and "module:function" of its
    handler.
    """

    key: int
    min_version: int
    max_version: int
    handler: str
    served_from: int

    def serves(self, version: int) -> bool:
        """Whether the node answers requests of this version."""
        return self.served_from <= version <= self.max_version


def _api(key: int, min_version: int, max_version: int, handler: str, served_from: int | None = None) -> ServedApi:
    where = f"muster.coordinator.api.{handler}"
    return ServedApi(key, min_version, max_version, where, min_version if served_from is None else served_from)


_TABLE = (
    # Produce 0-2 is advertised without being served, as by Kafka: old clients infer support for compression from it.
    _api(0, 0, 13, "records.produce:handle_produce", served_from=3),
    _api(1, 4, 18, "records.fetch:handle_fetch"),
    _api(2, 1, 11, "records.offsets:handle_list_offsets"),
    _api(3, 0, 13, "cluster.metadata:handle_metadata"),
    _api(8, 2, 10, "groups.offset_commit:handle_offset_commit"),
    _api(9, 1, 10, "groups.offset_fetch:handle_offset_fetch"),
    _api(10, 0, 6, "cluster.find_coordinator:handle_find_coordinator"),
    _api(11, 0, 9, "groups.membership:handle_join_group"),
    _api(12, 0, 4, "groups.membership:handle_heartbeat"),
    _api(13, 0, 5, "groups.membership:handle_leave_group"),
    _api(14, 0, 5, "groups.membership:handle_sync_group"),
    _api(15, 0, 6, "groups.administration:handle_describe_groups"),
    _api(16, 0, 5, "groups.administration:handle_list_groups"),
    _api(17, 0, 1, "security.sasl:handle_sasl_handshake"),
    _api(18, 0, 4, "cluster.api_versions:handle_api_versions"),
    _api(19, 2, 7, "topics.create_topics:handle_create_topics"),
    _api(20, 1, 6, "topics.delete_topics:handle_delete_topics"),
    _api(21, 0, 2, "records.offsets:handle_delete_records"),
    _api(22, 0, 5, "transactions.producers:handle_init_producer_id"),
    _api(23, 2, 4, "records.offsets:handle_offset_for_leader_epoch"),
    _api(24, 0, 5, "transactions.producers:handle_add_partitions_to_txn"),
    _api(25, 0, 4, "transactions.producers:handle_add_offsets_to_txn"),
    _api(26, 0, 5, "transactions.producers:handle_end_txn"),
    _api(27, 1, 2, "transactions.administration:handle_write_txn_markers"),
    _api(28, 0, 5, "transactions.txn_offset_commit:handle_txn_offset_commit"),
    _api(29, 1, 3, "acls.describe_acls:handle_describe_acls"),
    _api(30, 1, 3, "acls.alter_acls:handle_create_acls"),
    _api(31, 1, 3, "acls.alter_acls:handle_delete_acls"),
    _api(32, 1, 4, "configs.describe_configs:handle_describe_configs"),
    _api(33, 0, 2, "configs.alter_configs:handle_alter_configs"),
    _api(35, 1, 5, "cluster.describe_cluster:handle_describe_log_dirs"),
    _api(36, 0, 2, "security.sasl:handle_sasl_authenticate"),
    _api(37, 0, 3, "topics.create_topics:handle_create_partitions"),
    _api(38, 1, 3, "security.delegation_tokens:handle_create_delegation_token"),
    _api(39, 1, 2, "security.delegation_tokens:handle_renew_delegation_token"),
    _api(40, 1, 2, "security.delegation_tokens:handle_expire_delegation_token"),
    _api(41, 1, 3, "security.delegation_tokens:handle_describe_delegation_token"),
    _api(42, 0, 2, "groups.administration:handle_delete_groups"),
    _api(43, 0, 2, "cluster.leaders:handle_elect_leaders"),
    _api(44, 0, 1, "configs.alter_configs:handle_incremental_alter_configs"),
    _api(45, 0, 1, "cluster.leaders:handle_alter_partition_reassignments"),
    _api(46, 0, 0, "cluster.leaders:handle_list_partition_reassignments"),
    _api(47, 0, 0, "groups.offset_commit:handle_offset_delete"),
    _api(48, 0, 1, "client_quotas:handle_describe_client_quotas"),
    _api(49, 0, 1, "client_quotas:handle_alter_client_quotas"),
    _api(50, 0, 0, "security.scram_credentials:handle_describe_user_scram_credentials"),
    _api(51, 0, 0, "security.scram_credentials:handle_alter_user_scram_credentials"),
    _api(55, 0, 2, "cluster.describe_cluster:handle_describe_quorum"),
    _api(60, 0, 2, "cluster.describe_cluster:handle_describe_cluster"),
    _api(61, 0, 0, "records.describe_producers:handle_describe_producers"),
    _api(64, 0, 0, "cluster.leaders:handle_unregister_broker"),
    _api(65, 0, 0, "transactions.administration:handle_describe_transactions"),
    _api(66, 0, 2, "transactions.administration:handle_list_transactions"),
    _api(68, 0, 1, "groups.consumer_groups:handle_consumer_group_heartbeat"),
    _api(69, 0, 1, "groups.consumer_groups:handle_consumer_group_describe"),
    _api(74, 0, 1, "configs.describe_configs:handle_list_config_resources"),
    _api(75, 0, 0, "topics.describe_topic_partitions:handle_describe_topic_partitions"),
)

SERVED: Mapping[int, ServedApi] = {api.key: api for api in _TABLE}
"""The table by API key, in ascending order, as ApiVersions lists it."""

_loaded: dict[int, Handler] = {}


def handler(api_key: int) -> Handler:
    """The handler of a served API. Its module is imported at the first call. Raises KeyError for an API that is not
    served.
    """
    found = _loaded.get(api_key)
    if found is None:
        module, name = SERVED[api_key].handler.split(":")
        found = _loaded[api_key] = lazy(module, name)
    return found
