"""The claims about a group: each sentence of a verdict is made from one claim. Pure.

A claim names the rule that made it, and the rows of tables that prove it. `contradictions` withdraws a claim that other
rows contradict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.pipeline.episodes.applications import Together
from muster.pipeline.episodes.model import Rebalance, Stay
from muster.pipeline.episodes.share_facts import NO_SHARES, Shares
from muster.pipeline.episodes.stream_facts import NO_STREAMS, Streams
from muster.pipeline.episodes.thresholds import IN_TURN_MS

CERTAIN: Final = "certain"
LIKELY: Final = "likely"
PERHAPS: Final = "perhaps"
CONFIDENCES: Final = (CERTAIN, LIKELY, PERHAPS)
"""How sure a claim is, the surest first. The text of trouble that is only PERHAPS true has the word `perhaps`."""

STALLED: Final = "stalled"
SECOND_APPLICATION: Final = "second_application"
ZOMBIE: Final = "zombie"
TOO_SLOW: Final = "too_slow"
TWO_TOPICS: Final = "two_topics"
SKIP: Final = "skip"
BEHIND: Final = "behind"
"""The rules of trouble that commits show. SECOND_APPLICATION and ZOMBIE are also causes in the table `regressions`."""
POISON: Final = "poison_record"
NOT_DONE: Final = "record_not_done"
ALL_FAIL: Final = "most_records_fail"
LOCK_TOO_SHORT: Final = "lock_too_short"
STUCK: Final = "stuck_worker"
STARVED: Final = "starved_worker"
OF_SHARES: Final = (POISON, NOT_DONE, ALL_FAIL, LOCK_TOO_SHORT, STUCK, STARVED)
"""The rules of trouble that the deliveries of share groups show."""
NOT_READY: Final = "topics_not_ready"
SHUTDOWN: Final = "application_ended"
BOUNCING: Final = "tasks_bounce"
WARMING: Final = "endless_warmup"
ONE_HAS_ALL: Final = "one_has_all_tasks"
OF_STREAMS: Final = (NOT_READY, SHUTDOWN, BOUNCING, WARMING, ONE_HAS_ALL)
"""The rules of trouble that the tasks and topics of streams groups show."""
OF_COMMITS: Final = (STALLED, SECOND_APPLICATION, ZOMBIE, TOO_SLOW, TWO_TOPICS, SKIP, BEHIND, *OF_SHARES, *OF_STREAMS)
"""The rules of all trouble besides rebalances."""
UNSTABLE: Final = "unstable"
CLOCK: Final = "clock_went_back"
SILENCE: Final = "silence"
STOPPED: Final = "stopped"
NO_ENDS: Final = "no_end_offsets"
FINE: Final = "fine"
"""The rules of claims that are no kind of episode, and that no commits show."""

EVIDENCE: Final = 8
"""A claim names at most this many rows."""


class Evidence(NamedTuple):
    """A row of a table that proves a claim."""

    table: str
    at_ms: int | None
    """The time by which the row is found: the end of a rebalance or of a membership, else the start."""
    text: str
    """What the row shows."""


class Claim(NamedTuple):
    """A statement about a group."""

    rule: str
    """The name of the rule: a kind of episode, or one of the rules of `other_trouble`."""
    text: str
    """The claim as one sentence."""
    who: tuple[str, ...] = ()
    """The names of members or partitions."""
    from_ms: int | None = None
    until_ms: int | None = None
    confidence: str = CERTAIN
    evidence: tuple[Evidence, ...] = ()
    """The rows that prove the claim, at most EVIDENCE."""
    rows: int = 0
    """The number of rows that prove the claim."""
    is_on: bool = False
    """Whether the group still needs help because of this."""
    happenings: int = 1
    """The number of episodes, or of other incidents, that the claim describes."""
    missing: int = 0
    """How many members did not come back, and were not replaced, by this claim."""
    advice: str | None = None
    """What a user can do."""
    weaker: Claim | None = None
    """The claim that is made instead if a fact contradicts this one."""

    def proved_by(self, rows: Sequence[Evidence]) -> Claim:
        """The same claim with the rows that prove it."""
        return self._replace(evidence=tuple(rows[:EVIDENCE]), rows=len(rows))


class Stall(NamedTuple):
    """A time in which a partition stalled: a row of the table `stalls` with status STALL or STOP."""

    topic: str
    partition: int
    from_ms: int
    until_ms: int | None
    """The end of the stall; None means that the partition still stalled at the end of the log."""
    lag: int | None
    status: str | None = None
    offset: int | None = None
    """The committed offset, which did not change."""
    owner: str | None = None
    """The client id of the member that committed the offset."""

    @property
    def place(self) -> tuple[str, int]:
        """The topic and the number of the partition."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """The name of the partition, as in `orders-3`."""
        return f"{self.topic}-{self.partition}"

    def end_ms(self, log_end_ms: int) -> int:
        """The end of the stall, or the end of the log."""
        return log_end_ms if self.until_ms is None else self.until_ms

    def span(self, log_end_ms: int) -> tuple[int, int]:
        """The start and the end of the stall."""
        return self.from_ms, self.end_ms(log_end_ms)

    def lasted_ms(self, log_end_ms: int) -> int:
        """The length of the stall."""
        return self.end_ms(log_end_ms) - self.from_ms

    def is_short(self, log_end_ms: int) -> bool:
        """Is the stall so short that the owner may only have read its other partitions?"""
        return self.lasted_ms(log_end_ms) < IN_TURN_MS


class Back(NamedTuple):
    """Commits that went back: a row of the table `regressions`."""

    cause: str
    from_ms: int
    until_ms: int
    commits: int


class Step(NamedTuple):
    """How a group read in a short time: a row of the table `progress`."""

    start_ms: int
    until_ms: int
    commits: int | None
    records: int | None
    """The number of records that the group read."""
    written: int | None
    """The number of records that producers wrote."""
    lag: int | None


class Skip(NamedTuple):
    """Records that no member read: the offset went forward. A row of the table `skips`."""

    topic: str
    partition: int
    at_ms: int
    from_offset: int
    to_offset: int
    client: str | None = None
    """The client id of the member that went forward. None: the group was empty."""


class Last(NamedTuple):
    """The last commit of a partition: a row of the table `lag`."""

    topic: str
    partition: int
    at_ms: int
    """When the partition was committed for the last time."""
    lag: int | None
    owner: str | None
    """The client id of the member that committed it."""
    behind_ms: int | None = None
    """How long the next record had been there, unread, at the end of the log."""
    since_ms: int | None = None
    """Since when the next record had been there."""


class Fall(NamedTuple):
    """The largest step with which the clock of the brokers went back."""

    at_ms: int
    """The time that the clock had reached before it went back."""
    by_ms: int


Span = tuple[int, int]
"""The start and the end of a time (ms)."""


class Facts(NamedTuple):
    """What the tables show about one group, and about the cluster."""

    end_ms: int
    """The end of the log."""
    first_ms: int | None = None
    """The start of the log."""
    stays: Sequence[Stay] = ()
    rebalances: Sequence[Rebalance] = ()
    stalled: Sequence[Stall] = ()
    back: Sequence[Back] = ()
    progress: Sequence[Step] = ()
    """The group's rows of `progress`, in the order of time."""
    lags: Sequence[Last] = ()
    silences: Sequence[Span] = ()
    """Times in which no group committed, though several did before and after."""
    score: float | None = None
    """The group's score in the table `flapping`."""
    fall: Fall | None = None
    deleted_ms: int | None = None
    """When the group was deleted, if no record about it follows."""
    together: Together | None = None
    """The time in which members read different topics."""
    skips: Sequence[Skip] = ()
    shares: Shares = NO_SHARES
    """What became of the records of a share group."""
    streams: Streams = NO_STREAMS
    """Who had the tasks of a streams group, and when its topics were ready."""
