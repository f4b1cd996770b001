"""What each column of the tables means, in a few words: comments of the written columns, and the page of reference.

docs/pipeline-tables.md explains more, with the rules. A column that means the same everywhere is named once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_EVERYWHERE: Final[Mapping[str, str]] = {
    "group": "the group id",
    "topic": "the topic",
    "partition": "the number of the partition",
    "log_topic": "the topic of the record: __consumer_offsets, __group_events, …",
    "log_partition": "the partition of the log that has the record",
    "log_offset": "the offset of the record in its partition of the log: the order of all that happened in a group",
    "log_timestamp_ms": "when it was logged",
    "producer_id": "who wrote it in a transaction, or idempotently; null: not known",
    "producer_epoch": "the epoch of that producer",
    "is_transactional": "it was written in a transaction",
    "key_type": "the type of the record's key",
    "value_version": "the version of the record's value",
    "is_tombstone": "the record has no value",
    "raw_key": "the key as it stands in the log",
    "raw_value": "the value as it stands in the log",
    "reason": "why: of a rebalance in the client's own words, of a row that cannot be used what is wrong with it",
    "member_id": "the member",
    "instance_id": "its group.instance.id; null: a dynamic member",
    "client_id": "its client id",
    "host": "its host, as the broker saw it",
    "generation": "the generation; of a KIP-848 group the epoch",
    "before_generation": "the generation that the rebalance ended",
    "first_generation": "the first generation of it",
    "last_generation": "the last generation of it",
    "time_ms": "when",
    "start_ms": "when it began",
    "end_ms": "when it ended; null: it has not, or to the end of the log",
    "first_ms": "from when on the log tells of it",
    "last_ms": "until when the log tells of it",
    "took_ms": "end - start",
    "source": "events: exact, from the server's events; log and inferred: from the offsets log alone",
    "confidence": "how sure it is, from 0 to 1",
    "paused_partition_ms": "how long partitions were not read because of it, added up over the partitions",
    "cost_ms": "how long partitions were not read because of it, added up over the partitions",
    "rebalances": "how many rebalances",
    "kind": "what kind it is",
    "cause": "why, by the words of docs/events.md or docs/pipeline-tables.md; null: not known",
    "back": "from_offset - to_offset",
    "lag": "records between the committed offset and the end; null: the end is not known",
    "setting": "the name of the setting of the what-if",
    "settings_json": "what the setting changes",
    "why": "why there are no figures, or what else is to be known",
    "unadvised": "why there is no advice for the group; null: there is",
    "told": "all of it in one sentence",
    "protocol_type": "consumer, connect, …",
    "protocol": "the strategy of assignment that was chosen",
    "leader": "the member id of the leader",
    "members": "the members",
    "member_count": "how many members",
    "partitions": "how many partitions",
    "topics": "the topics",
    "groups": "the groups",
    # commits
    "committed_offset": "the offset that was committed; null: the offset was deleted",
    "leader_epoch": "the leader epoch that the client gave",
    "metadata": "the text that the client gave",
    "is_deleted": "the offset was deleted or expired",
    "stated_ms": "a time more than a day from the one that is believed; null: there is none",
    # memberships
    "generations": "how many generations",
    "end_cause": "left, expired, removed or replaced; null: not known, or it is still there",
    # rebalances
    "trigger_member_id": "the member that caused it",
    "trigger_instance_id": "its group.instance.id",
    "trigger_client_id": "its client id",
    "trigger_host": "its host",
    "join_phase_ms": "how long members joined",
    "sync_phase_ms": "how long the leader assigned",
    "members_before": "members of the generation before",
    "members_after": "members of the new generation",
    "members_joined": "members that are new",
    "members_left": "members that are gone",
    "kept": "partitions with the same owner as before",
    "moved": "partitions with another owner",
    "gained": "partitions that had no owner before",
    "lost": "partitions that have no owner now",
    "failed_attempts": "rebalances that began and were overtaken by another one",
    "start_earliest_ms": "it began then at the earliest",
    "start_latest_ms": "it began then at the latest",
    "took_least_ms": "it took so long at least",
    "took_most_ms": "it took so long at most",
    "came": "the client ids of those that came",
    "went": "the client ids of those that went",
    "died": "the members whose session ran out",
    "silent_from_ms": "when the first of those that died was heard of last",
    "silent_partition_ms": "how long partitions of members that died were not read before anybody knew, added up",
    # moves
    "from_member_id": "who had it",
    "from_client_id": "the client id of who had it",
    "to_member_id": "who has it now",
    "to_client_id": "the client id of who has it now",
    "paused_ms": "how long nobody read it",
    # balance
    "least": "the fewest partitions of a member",
    "most": "the most partitions of a member",
    "skew": "how uneven the assignment is",
    "stickiness": "how much of the last assignment it kept, from 0 to 1",
    # regressions, stalls, lag
    "from_offset": "the last offset before",
    "to_offset": "the offset that it went back to",
    "until_ms": "when the last thing of it happened",
    "commits": "how many commits",
    "group_status": "the worst status among the partitions of the group",
    "status": "STOP, STALL, REWIND, WARN or OK, by the rules of Burrow",
    "complete": "commits in the window / 10, at the end of the interval",
    "first_offset": "committed at the beginning",
    "last_offset": "committed at the end",
    "lag_known": "the end of the topic is known",
    "committed_ms": "when the last commit was logged",
    "end_offset": "the latest known end of the partition",
    "behind_ms": "for how long the log is known to have reached beyond the committed offset",
    # flapping
    "hours": "how long the log tells of the group",
    "rebalances_per_hour": "rebalances by hours, or by 1 if that is less",
    "distinct_triggers": "how many members caused them",
    "top_trigger_client_id": "the client that caused most of them",
    "top_trigger_share": "its share of them",
    "short_generations": "generations with members that lasted less than 5 minutes",
    "score": "how restless the group is, from 0 to 100",
    # static_candidates
    "returns": "how often it came back",
    "median_absent_ms": "how long it was away, in the median",
    "max_absent_ms": "how long it was away at most",
    "session_timeout_ms_needed": "the session timeout that would have covered each return",
    # episodes, verdicts, comparison
    "from_ms": "when the first thing of it happened",
    "is_static": "its members came back under their instance ids without a rebalance",
    "has_died": "all that went were given up by the coordinator",
    "back_ms": "how long nobody was in a member's place; null: nobody came",
    "level": "help, look or fine",
    "verdict": "one sentence about the group",
    "episodes": "how many episodes",
    "trouble_ms": "what trouble cost, added up over the partitions, those that stood still too",
    "p": "how likely such a difference is by chance; null: the group is on one side only",
    "is_significant": "p is below 0.05 by the number of groups that were tested",
    "judgement": "significant, chance, too_few (below 5 happenings: not tested) or one_side (no time to compare with)",
    **{
        f"{name}_{side}": f"{words}, {side} the change"
        for name, words in {
            "hours": "how long the log tells of the group",
            "rebalances": "rebalances",
            "happenings": "episodes; of a loop that goes on for half of the time each turn",
            "cost_ms": "how long partitions were not read, added up",
            "episodes": "episodes by their kind",
        }.items()
        for side in ("before", "after")
    },
    # transactions
    "transactional_id": "the transactional id; null: only its producer is known",
    "ending_ms": "when it was decided how it ends",
    "open_ms": "ending - start",
    "timeout_ms": "transaction.timeout.ms of its producer",
    "outcome": "committed or aborted; null: open",
    "offsets": "how many offsets it committed",
    "fenced_ms": "when the next producer took the id over",
    "fenced_requests": "requests of its producer that were refused since then",
    "transaction_version": "Kafka's: 2 raises the epoch with each transaction",
    # what-if
    "reproduced": "generations that the replay made as they were",
    "share": "reproduced / generations",
    "withheld": "the replay is not true enough: there are no figures",
    "moved_partitions": "changes of an owner",
    "paused_partition_s": "partition-seconds in which nobody read because of rebalances",
    "silent_partition_s": "other partition-seconds in which the owner was dead or away",
    "detect_ms": "from the last sign of life of a member to its removal, in the mean",
    "spared": "rebalances that would have been spared",
    "gain_s": "partition-seconds that would have been read",
    "unread_s": "partition-seconds in which nobody read",
    "uncertainty_s": "by how much the gain may be wrong",
}

_OF_TABLE: Final[Mapping[str, Mapping[str, str]]] = {
    "commits": {"members": "how many members the group had then", "time_ms": "when it was logged"},
    "balance": {"members": "how many members"},
    "episodes": {"members": "the names of those concerned", "partitions": "most partitions of the group meanwhile"},
    "regressions": {"partitions": "the partitions that went back, each with its first and its farthest commit"},
    "lag": {"end_ms": "since when that end is known"},
    "progress": {
        "start_ms": "when the step begins",
        "until_ms": "when it ends",
        "commits": "how many commits, of all partitions",
        "records": "by how much the committed offsets rose, of all partitions",
        "written": "by how much the ends of its partitions rose; null: not known",
        "lag": "records behind at the end of the step, of all partitions; null: not known",
    },
    "transactions": {"topics": "which partitions it wrote to", "end_ms": "when each partition had its marker"},
    "whatif": {"rebalances": "generations that got an assignment"},
    "advice": {"rebalances": "how many rebalances there were"},
}
_ACTUAL: Final = "actual_"


def comment(table: str, column: str) -> str | None:
    """What a column of a table means; None: that is not told."""
    own = _OF_TABLE.get(table, {}).get(column)
    if own is not None:
        return own
    if column.startswith(_ACTUAL):
        told = comment(table, column.removeprefix(_ACTUAL))
        return None if told is None else f"what really happened: {told}"
    return _EVERYWHERE.get(column)
