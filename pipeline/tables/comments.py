"""The meaning of each column of the tables.

The texts are comments of written columns, and stand in docs/pipeline-tables.md. A meaning that several tables share
stands once, in `SHARED`. `_OF_TABLE` has the meanings that belong to one table. Rules with several cases are only on
the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SHARED: Final[Mapping[str, str]] = {
    "group": "the group id",
    "topic": "the topic",
    "partition": "the number of the partition",
    "member_id": "the member id",
    "instance_id": "its group.instance.id; null: a dynamic member",
    "client_id": "its client id",
    "host": "its host, as the broker saw it",
    "generation": "the generation; KIP-848: the epoch",
    "log_partition": "the partition of the log with the record",
    "log_offset": "the offset of the record in that partition; it orders all records of a group",
    "setting": "the name of the setting",
    "settings_json": "what the setting changes, as JSON",
}
"""The meaning of a column, for every table without another meaning in `_OF_TABLE`."""

_WHEN_OWNED: Final = "KIP-848: when the partition was"

_RAW: Final[Mapping[str, str]] = {
    "group": "the group id; null: not known",
    "log_topic": "the topic of the record: __consumer_offsets, __group_events, …",
    "log_timestamp_ms": "when the record was logged",
    "producer_id": "the producer that wrote the record; null: none, or not known",
    "producer_epoch": "the producer that wrote the record; null: none, or not known",
    "is_transactional": "the record was written in a transaction",
    "key_type": "type of the key, version of the value",
    "value_version": "type of the key, version of the value",
    "is_tombstone": "the record has no value",
    "reason": "what is wrong with the record",
    "raw_key": "as in the log",
    "raw_value": "as in the log",
}

_SIDES: Final = {"before": ", before the change", "after": ", after the change"}

_OF_TABLE: Final[Mapping[str, Mapping[str, str]]] = {
    "commits": {
        "time_ms": "when the commit was logged, by the broker's clock",
        "committed_offset": "the committed offset; null: the offset was deleted",
        "leader_epoch": "the leader epoch that the client gave",
        "metadata": "the text that the client gave",
        "is_deleted": "the offset was deleted: expired, by a request, or with its topic or group",
        "generation": "of the group's last record before; KIP-848, Streams: the epoch; null: none",
        "members": "members of the group then; 0: empty, deleted, or without a record; null: not known",
        "member_id": "the owner of the partition then (the log names no sender); null: none, not known",
        "stated_ms": "a rejected time of commit or record, more than a day from time_ms; null: none",
    },
    "generations": {
        "generation": "its number; 0 again after the group was deleted",
        "start_ms": "when its record was logged",
        "end_ms": "when the next record or the tombstone was logged; null: still current",
        "protocol_type": "consumer, connect, …",
        "protocol": "the chosen assignment strategy; null: no members",
        "leader": "the member id of the leader; null: no members, or KIP-848",
        "member_count": "how many members",
        "members": "members, in the order of the record; topics, assigned: null if unreadable or no consumer",
        "source": "log; events: only __group_events has it, and members lack rack and topics",
    },
    "memberships": {
        "start_ms": "when the member joined; log: when its first generation began",
        "end_ms": "when the member left; log: when it probably left; null: still a member",
        "first_generation": "its first and last generation; null: none had it",
        "last_generation": "its first and last generation; null: none had it",
        "generations": "how many generations had it",
        "source": "events: exact; log: from the offsets log",
        "end_cause": "left, expired, removed (join, sync or revocation timeout), or replaced; null: none, not known",
    },
    "ownership": {
        "start_ms": f"when the assignment was complete; {_WHEN_OWNED} given",
        "end_ms": f"when the next assignment was complete; {_WHEN_OWNED} taken away; null: still owned",
        "first_generation": "first and last generation of the interval",
        "last_generation": "first and last generation of the interval",
    },
    "rebalances": {
        "generation": "the new generation; KIP-848: the new epoch",
        "before_generation": "the generation before",
        "start_ms": "when it began; inferred: the likeliest moment",
        "end_ms": "when the assignment was complete; null: it had not ended",
        "cause": "a cause of docs/events.md; null: not known",
        "trigger_member_id": "the member that caused it; null: not known",
        "trigger_instance_id": "the member that caused it; null: not known",
        "trigger_client_id": "the member that caused it; null: not known",
        "trigger_host": "the member that caused it; null: not known",
        "reason": "the client's reason; only from events",
        "join_phase_ms": "how long members joined, in the last attempt",
        "sync_phase_ms": "how long the leader assigned, in the last attempt",
        "took_ms": "end_ms - start_ms, with failed attempts just before",
        "members_before": "members before and after",
        "members_after": "members before and after",
        "members_joined": "members that joined, and left; a returning static member does neither",
        "members_left": "members that joined, and left; a returning static member does neither",
        "kept": "partitions that keep their owner",
        "moved": "partitions with another owner",
        "gained": "partitions that had no owner before",
        "lost": "partitions that have no owner now",
        "failed_attempts": "rebalances that began and were overtaken; inferred: missing or compacted generations",
        "paused_partition_ms": "how long it paused partitions, summed over partitions",
        "source": "events: exact; inferred: from the offsets log",
        "confidence": "how sure the cause is, from 0 to 1; events: 1",
        "start_earliest_ms": "bounds of the start, equal if it is known; null: not known",
        "start_latest_ms": "bounds of the start, equal if it is known; null: not known",
        "took_least_ms": "took_ms by these bounds of the start",
        "took_most_ms": "took_ms by these bounds of the start",
        "came": "client ids of the members that joined",
        "went": "client ids of the members that left by themselves",
        "died": "members whose session expired: last sign of life (last_ms), end of session, partitions",
        "silent_from_ms": "the first last_ms of those in died",
        "silent_partition_ms": "time from last_ms in died to start_ms, summed over partitions",
    },
    "moves": {
        "kind": "moved; gained: no owner in the generation before; lost: no owner in this one",
        "from_member_id": "the old owner",
        "from_client_id": "the old owner",
        "to_member_id": "the new owner",
        "to_client_id": "the new owner",
        "time_ms": "when the assignment was complete; KIP-848: when the new owner got the partition",
        "paused_ms": "how long nobody read it: took_ms; KIP-848: exact; null: lost, or first owner",
    },
    "balance": {
        "start_ms": "when the generation began",
        "members": "how many members",
        "partitions": "how many assigned partitions",
        "least": "the fewest and the most partitions of a member",
        "most": "the fewest and the most partitions of a member",
        "skew": "standard deviation of the members' partition counts / their mean; 0 is even",
        "stickiness": "kept partitions / keepable partitions; null: the first generation",
    },
    "regressions": {
        "topic": "of the commit that went back farthest",
        "partition": "of the commit that went back farthest",
        "time_ms": "when the first commit went back",
        "until_ms": "when the last commit went back",
        "from_offset": "the committed offset before and after",
        "to_offset": "the committed offset before and after",
        "back": "from_offset - to_offset",
        "cause": "reset, deleted, rewind, zombie, second_application, topic_recreated or unknown",
        "member_id": "the member that did it; null: several, none, or not known",
        "client_id": "the member that did it; null: several, none, or not known",
        "commits": "how many commits went back",
        "partitions": "each partition, with its farthest and its first commit",
    },
    "stalls": {
        "start_ms": "when the interval began",
        "end_ms": "when it ended; null: it lasts to the end of the log",
        "status": "STALL, STOP, WARN, REWIND or OK",
        "complete": "commits in the window / 10, at the end of the interval",
        "first_offset": "the committed offset at the beginning and at the end",
        "last_offset": "the committed offset at the beginning and at the end",
        "lag": "records from last_offset to the end; null: not known, or the offset was deleted",
        "lag_known": "false: the end is not known, so only REWIND was checked",
        "member_id": "the owner at the last commit",
        "client_id": "the owner at the last commit",
        "group_status": "the worst status of its partitions at the end of the log",
    },
    "skips": {
        "time_ms": "when the commit was logged",
        "from_offset": "the committed offset before",
        "to_offset": "the committed offset after",
        "client_id": "the member that went forward; null: a tool, while the group was empty",
    },
    "silences": {
        "from_ms": "the last sign of life before",
        "until_ms": "the first sign of life after",
        "groups": "groups with a sign of life shortly before and shortly after",
    },
    "lag": {
        "committed_offset": "the last committed offset",
        "committed_ms": "when the last commit was logged",
        "end_offset": "the latest known end of the partition",
        "end_ms": "since when this end is known",
        "lag": "end_offset - committed_offset, at least 0; null: no end is known",
        "behind_ms": "end_ms - the time when the log passed committed_offset; 0 without lag; null: not known",
        "client_id": "the client id of the owner",
    },
    "progress": {
        "start_ms": "when the step begins",
        "until_ms": "when the step ends; the last one ends with the log",
        "commits": "commits, of all partitions",
        "records": "by how much the committed offsets rose, of all partitions; a fall counts as 0",
        "written": "by how much the ends of the partitions rose; null: one is not known",
        "lag": "records behind at until_ms, of all partitions; null: an end is not known",
    },
    "flapping": {
        "rebalances": "how many rebalances",
        "hours": "from its first generation or commit to its last, or to the end of the log with members",
        "rebalances_per_hour": "rebalances divided by hours, or by 1 if hours is less",
        "distinct_triggers": "members that caused them, by instance id, or else client id and host",
        "top_trigger_client_id": "the client that caused most of them, and its share",
        "top_trigger_share": "the client that caused most of them, and its share",
        "short_generations": "generations with members that lasted less than 5 minutes",
        "score": "how often the group rebalances without need, from 0 to 100",
    },
    "static_candidates": {
        "returns": "how often a member returned",
        "median_absent_ms": "median and longest time from leaving, or the end of the session, to the return",
        "max_absent_ms": "median and longest time from leaving, or the end of the session, to the return",
        "session_timeout_ms_needed": "the session timeout that covers each return",
    },
    "episodes": {
        "kind": "rolling_restart, crash_loop, …",
        "from_ms": "when its first departure, arrival or rebalance began",
        "until_ms": "when the last of these ended",
        "members": "instance ids, or client ids (with host, if several share one)",
        "member_count": "how many members; several may share a name",
        "rebalances": "how many rebalances; 0: static members returned in time",
        "cost_ms": "sum of paused_partition_ms",
        "confidence": "how sure kind and causes are, from 0 to 1",
        "partitions": "the largest number of partitions that the group had during the episode",
        "is_static": "members returned under their instance ids without a rebalance",
        "has_died": "the coordinator removed all that left",
        "back_ms": "the longest time until a member was replaced; null: none was",
        "sentence": "all of this in one sentence",
        "evidence": "rows that prove it: the name of their table, their time, what they show; at most 8",
    },
    "verdicts": {
        "level": "help, look or fine",
        "verdict": "one sentence about the group",
        "kind": "the kind of the worst episode; null: no trouble",
        "episodes": "how many episodes",
        "rebalances": "how many rebalances",
        "trouble_ms": "unread time of trouble and stalls, summed over partitions",
        "cost_ms": "unread time of all rebalances, summed over partitions",
        "first_ms": "from when to when the log mentions the group; with members: to its end",
        "last_ms": "from when to when the log mentions the group; with members: to its end",
        "claims": "all claims about the group, the worst first, each with its rule and the rows that prove it",
    },
    "comparison": {
        "p": "probability of such a difference by chance; null: one side only",
        "is_significant": "p is below 0.05 divided by the number of tested groups",
        "judgement": "significant, chance, too_few (fewer than 5 incidents) or one_side (nothing to compare with)",
        **{
            f"{name}_{side}": f"{words}{suffix}"
            for name, words in {
                "hours": "hours that the log covers the group",
                "rebalances": "rebalances, without first formations",
                "happenings": "incidents: episodes, or departures of a long loop",
                "cost_ms": "sum of paused_partition_ms",
                "episodes": "episodes by kind: 2 rolling_restart, …",
            }.items()
            for side, suffix in _SIDES.items()
        },
    },
    "transactions": {
        "transactional_id": "the transactional id; null: only its producer is known",
        "producer_id": "the producer of the transaction",
        "producer_epoch": "the producer of the transaction",
        "client_id": "the client that began it; only from events",
        "host": "the client that began it; only from events",
        "start_ms": "when its first partition was added; source offsets: when its first offset was logged",
        "ending_ms": "when commit or abort was decided",
        "end_ms": "when each partition had its marker; null: open, or not known",
        "open_ms": "ending_ms - start_ms",
        "took_ms": "end_ms - start_ms",
        "timeout_ms": "transaction.timeout.ms of the producer",
        "outcome": "committed or aborted; null: open",
        "cause": "who ended it: client, timeout, new_producer (with the same id); null: not known",
        "partitions": "how many partitions; null: compacted away",
        "topics": "these partitions; __consumer_offsets if it has offsets",
        "offsets": "how many offsets it committed; null: not known",
        "groups": "the groups of these offsets; null: not known",
        "fenced_ms": "when the next producer fenced this one, after its last transaction",
        "fenced_requests": "refused requests since then; only from events",
        "transaction_version": "Kafka's; 2 raises the epoch with each transaction (KIP-890)",
        "source": "events: exact; log: from __transaction_state; offsets: from the offsets log alone",
        "confidence": "how sure cause is, from 0 to 1; null: no cause",
    },
    "fidelity": {
        "source": "events: replayed from events; log: from the offsets log alone",
        "generations": "generations of the history, or of the replay if it has more",
        "reproduced": "generations with the same members and assignment in the replay",
        "share": "reproduced / generations",
        "withheld": "not exact enough: no rows in whatif",
        "why": "why the group is withheld, or a remark",
        "unadvised": "why the group has no advice; null: it has",
    },
    "advice": {
        "source": "as in fidelity",
        "spared": "rebalances that would have been spared",
        "rebalances": "rebalances that happened",
        "gain_s": "partition-seconds that would have been read",
        "unread_s": "partition-seconds that were not read",
        "uncertainty_s": "by how much gain_s may be wrong",
        "sentence": "the advice with its price, in one sentence",
    },
    "whatif": {
        "rebalances": "generations that got an assignment",
        "moved_partitions": "changes of an owner; a returning static member is the same owner",
        "paused_partition_s": "partition-seconds not read because of rebalances",
        "silent_partition_s": "other partition-seconds in which the owner was dead or away, or there were no members",
        "detect_ms": "mean time from the last sign of life of a member to its removal; null: none was removed",
        "why": "why there are no figures; null: there are",
    },
    "malformed": _RAW,
    "unknown": _RAW,
}
_ACTUAL: Final = "actual_"


def comment(table: str, column: str) -> str | None:
    """The meaning of a column of a table; None for a column that has no meaning here."""
    own = _OF_TABLE.get(table, {}).get(column)
    if own is not None:
        return own
    if column.startswith(_ACTUAL):
        meaning = comment(table, column.removeprefix(_ACTUAL))
        return None if meaning is None else f"what really happened: {meaning}"
    return SHARED.get(column)


def is_shared(table: str, column: str) -> bool:
    """Whether the column has the same meaning in several tables."""
    return column in SHARED and column not in _OF_TABLE.get(table, {})
