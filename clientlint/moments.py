"""The moments of the rehearsal, in which clients go wrong: which requests are hit, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.clientlint.leader_errors import LeaderError
from muster.testcontrol.faults.actions import Action, Cut, Error, LoseAnswer, Note, Throttle

SHORT_MS: Final = 3_000
"""How long the faults of most moments last."""
LONG_MS: Final = 8_000
"""How long a moment lasts that waits for a request of each client, such as a heartbeat."""
THROTTLE_MS: Final = 2_000
_COORDINATED: Final = (
    "Heartbeat", "JoinGroup", "SyncGroup", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat",
)  # fmt: skip
_LOADING: Final = ("JoinGroup", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat")
"""While a coordinator loads, Heartbeat is answered with success, and SyncGroup with REBALANCE_IN_PROGRESS."""
_HEARTBEATS: Final = ("Heartbeat", "ConsumerGroupHeartbeat")
_ALL: Final = ()


class Moment(NamedTuple):
    """One moment. `apis`: the requests that are hit, () for all; `each_once`: only the first of each client.

    `transactional`: only requests of transactions. `protocol`: only members of "classic" or "consumer" groups.
    `static`: only members that are static, or that are not; None: all. `shakes`: what is done to all groups when it
    begins: "rebalance" or "expire".
    """

    name: str
    about: str
    apis: Sequence[str]
    action: Action
    lasts_ms: int = SHORT_MS
    each_once: bool = False
    transactional: bool = False
    protocol: str = ""
    static: bool | None = None
    shakes: str = ""


_MOMENTS: Final = (
    Moment("rebalance", "each group rebalances", _HEARTBEATS, Note(), LONG_MS, each_once=True, shakes="rebalance"),
    Moment("expired", "the session of each member ends", _HEARTBEATS, Note(), LONG_MS, each_once=True,
           shakes="expire"),
    Moment("coordinator-moved", "NOT_COORDINATOR for 8 s", _COORDINATED, Error("NOT_COORDINATOR"), LONG_MS),
    Moment("coordinator-loading", "COORDINATOR_LOAD_IN_PROGRESS for 3 s", _LOADING,
           Error("COORDINATOR_LOAD_IN_PROGRESS")),
    Moment("leader-moved", "NOT_LEADER_OR_FOLLOWER for 8 s", ("Fetch", "Produce"),
           LeaderError("NOT_LEADER_OR_FOLLOWER"), LONG_MS),
    Moment("leader-unknown", "no partition has a leader for 3 s", ("Metadata", "Fetch", "Produce"),
           LeaderError("NOT_LEADER_OR_FOLLOWER")),
    Moment("throttled", "each answer asks for a pause of 2 s", _ALL, Throttle(THROTTLE_MS), LONG_MS),
    Moment("answer-lost", "a heartbeat or commit is handled, and its connection cut",
           ("Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit"), LoseAnswer(), LONG_MS, each_once=True),
    Moment("answer-cut", "a Fetch or Produce answer ends in the middle", ("Fetch", "Produce"), Cut("middle"), LONG_MS,
           each_once=True),
    Moment("cut-off", "each request ends its connection, for 3 s", _ALL, Cut("before")),
    Moment("session-lost", "FETCH_SESSION_ID_NOT_FOUND", ("Fetch",), Error("FETCH_SESSION_ID_NOT_FOUND"), LONG_MS,
           each_once=True),
    Moment("commit-refused", "a commit is answered ILLEGAL_GENERATION", ("OffsetCommit",), Error("ILLEGAL_GENERATION"),
           LONG_MS, each_once=True, protocol="classic"),
    Moment("epoch-fenced", "a heartbeat is answered FENCED_MEMBER_EPOCH", ("ConsumerGroupHeartbeat",),
           Error("FENCED_MEMBER_EPOCH"), LONG_MS, each_once=True, static=False),
    Moment("epoch-stale", "OffsetFetch is answered STALE_MEMBER_EPOCH", ("OffsetFetch",), Error("STALE_MEMBER_EPOCH"),
           LONG_MS, each_once=True, protocol="consumer", shakes="expire"),
    Moment("commit-stale", "a commit is answered STALE_MEMBER_EPOCH", ("OffsetCommit",), Error("STALE_MEMBER_EPOCH"),
           LONG_MS, each_once=True, protocol="consumer"),
    Moment("end-lost", "EndTxn is handled, and its connection cut", ("EndTxn",), LoseAnswer(), LONG_MS,
           each_once=True),
    Moment("abortable", "TRANSACTION_ABORTABLE", ("AddOffsetsToTxn", "TxnOffsetCommit", "Produce"),
           Error("TRANSACTION_ABORTABLE"), LONG_MS, each_once=True, transactional=True),
    Moment("instance-unreleased", "a static member joins, and gets UNRELEASED_INSTANCE_ID",
           ("ConsumerGroupHeartbeat",), Error("UNRELEASED_INSTANCE_ID"), LONG_MS, each_once=True,
           static=True, shakes="expire"),
    Moment("instance-fenced", "a static member gets FENCED_INSTANCE_ID",
           ("Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat"), Error("FENCED_INSTANCE_ID"), LONG_MS,
           each_once=True, static=True),
    Moment("producer-fenced", "a transactional producer gets PRODUCER_FENCED", ("AddPartitionsToTxn", "EndTxn"),
           Error("PRODUCER_FENCED"), LONG_MS, each_once=True),
)  # fmt: skip
MOMENTS: Final = {moment.name: moment for moment in _MOMENTS}
"""Each moment by its name, in the order in which they are played. The last ones are fatal for a client."""
