"""The requests of Muster's commands, and their versions."""

from __future__ import annotations

from typing import Final

from muster.protocol.api import ApiKey

NEEDED: Final = {
    ApiKey.METADATA: (4, 13),
    ApiKey.FIND_COORDINATOR: (4, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.OFFSET_FETCH: (8, 9),
    ApiKey.LIST_OFFSETS: (1, 7),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.LEAVE_GROUP: (3, 5),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.FETCH: (4, 12),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    # the requests of `muster.testing`
    ApiKey.PRODUCE: (3, 12),
    ApiKey.CREATE_TOPICS: (4, 7),
    ApiKey.DELETE_TOPICS: (1, 5),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_RECORDS: (0, 2),
}
"""The versions that this client has: those with the newest shape, and with names of topics."""
