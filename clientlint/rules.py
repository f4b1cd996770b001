"""The rules that clients have to keep: what is wrong with a breach, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """One rule. `harm`: "breaks" (records or members are lost), "risks", "wastes" or "ages" (an old version)."""

    id: str
    harm: str
    wrong: str
    do: str


_RULES: Final = (
    Rule(
        "heartbeat-before-sync", "risks",
        "A member sends heartbeats in a new generation and does not ask for its assignment.",
        "Send SyncGroup as soon as JoinGroup is answered. Until it is answered, a heartbeat says nothing new.",
    ),
    Rule(
        "request-after-leave", "breaks",
        "A member sends requests after it has left its group.",
        "Stop the heartbeat timer, and let pending commits end, before LeaveGroup (or epoch -1) is sent.",
    ),
    Rule(
        "dead-member-id", "breaks",
        "A member uses a member id that the group has ended.",
        "After UNKNOWN_MEMBER_ID, join without a member id. FENCED_INSTANCE_ID is fatal: report it to the application.",
    ),
    Rule(
        "ended-generation", "breaks",
        "A member sends requests of a generation that has ended.",
        "Read the generation when the request is sent, not when it is made. Do not repeat a commit that was refused.",
    ),
    Rule(
        "session-not-held", "breaks",
        "A member does not hold its session, and is removed from its group.",
        "Send heartbeats from a thread or task of their own, at least three in each session timeout.",
    ),
    Rule(
        "required-id-thrown-away", "breaks",
        "A member does not use the member id that MEMBER_ID_REQUIRED gave (KIP-394).",
        "Keep the id of the answer, and send it in the next JoinGroup.",
    ),
    Rule(
        "join-without-its-id", "breaks",
        "A member that is in its group joins without its member id. Its old self stays until its session ends.",
        "Keep the member id until LeaveGroup or UNKNOWN_MEMBER_ID.",
    ),
    Rule(
        "no-rejoin-after-fence", "breaks",
        "A member that was fenced goes on with an epoch above 0 (KIP-848).",
        "After FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID, give up the partitions, and join with epoch 0.",
    ),
    Rule(
        "epoch-not-honoured", "breaks",
        "A member does not use the member epoch of the newest answer (KIP-848).",
        "Take the epoch of each successful heartbeat over, for heartbeats, commits and OffsetFetch.",
    ),
    Rule(
        "heartbeat-interval", "wastes",
        "A member does not keep to the heartbeat interval of the answers (KIP-848).",
        "Wait for heartbeat_interval_ms, unless the member has something new to say.",
    ),
    Rule(
        "silent-after-fatal-error", "breaks",
        "A member got a fatal error, and its client stays connected and silent.",
        "UNRELEASED_INSTANCE_ID and FENCED_INSTANCE_ID are fatal: the next poll has to raise them.",
    ),
    Rule(
        "reset-after-stale-epoch", "breaks",
        "A consumer begins at an end of the log, because OffsetFetch was refused. It loses or repeats records.",
        "STALE_MEMBER_EPOCH says nothing about offsets: ask again with the newest epoch, and do not reset.",
    ),
    Rule(
        "fetch-session-forgotten", "wastes",
        "A consumer asks for fetch sessions that it does not use (KIP-227).",
        "Use the session id of the answer, or ask for no session: session epoch -1.",
    ),
    Rule(
        "fetch-session-epoch", "breaks",
        "A consumer sends the wrong epoch of its fetch session (KIP-227).",
        "Raise the session epoch by 1 after each answer without an error.",
    ),
    Rule(
        "no-lookup", "breaks",
        "A client repeats requests at a broker that has said that another broker is responsible.",
        "After NOT_COORDINATOR ask FindCoordinator, and after NOT_LEADER_OR_FOLLOWER ask Metadata.",
    ),
    Rule(
        "throttle-ignored", "risks",
        "A client sends requests before its throttle time is over (KIP-219).",
        "Send nothing on the connection for throttle_time_ms. A broker with quotas does not read it meanwhile.",
    ),
    Rule(
        "retry-without-backoff", "wastes",
        "A client repeats a request at once, each time that it fails.",
        "Wait before each retry, longer each time (retry.backoff.ms, KIP-580).",
    ),
    Rule(
        "reconnect-without-backoff", "wastes",
        "A client opens a connection again at once, each time that it ends without an answer.",
        "Wait before each attempt, longer each time (reconnect.backoff.ms, reconnect.backoff.max.ms).",
    ),
    Rule(
        "metadata-storm", "wastes",
        "A client asks for the same metadata many times in a second.",
        "Share one refresh among all who wait for it, and wait between two refreshes (retry.backoff.ms).",
    ),
    Rule(
        "old-version", "ages",
        "A client uses an old version of an API, which lacks something.",
        "Use the newest version that both sides know. Kafka removes old versions (KIP-896).",
    ),
    Rule(
        "unreadable-subscription", "breaks",
        "The bytes of a subscription or an assignment do not parse.",
        "Write them as Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment, in their version.",
    ),
    Rule(
        "invalid-request", "breaks",
        "The server refused a request, because its fields do not fit together.",
        "The message of the answer, or Kafka's handler of the request, says which field is wrong.",
    ),
    Rule(
        "transaction-ended-twice", "breaks",
        "A transaction that was ended is ended again.",
        "Send EndTxn once. Repeat it only when its answer was lost or has a retriable error.",
    ),
    Rule(
        "commit-after-abortable", "breaks",
        "A producer commits a transaction that it has to abort (KIP-1050).",
        "After TRANSACTION_ABORTABLE, the only way on is to abort the transaction.",
    ),
    Rule(
        "producer-after-fence", "breaks",
        "A producer goes on after it was fenced.",
        "PRODUCER_FENCED is fatal: another producer has the transactional id. Report it to the application.",
    ),
)  # fmt: skip
RULES: Final[Mapping[str, Rule]] = {rule.id: rule for rule in _RULES}
"""Each rule by its id."""
