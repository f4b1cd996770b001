"""The content of a page: plain values, limited to what fits on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = Mapping[str, Any]
"""A row of a table, or of a selection that `select` names."""


class About(NamedTuple):
    """One analysis."""

    source: str
    """What was read, as the user named it."""
    rows: Mapping[str, int]
    """How many rows of the offsets log there were of each kind (pipeline.schema.KINDS)."""
    has_events: bool
    """Whether `__group_events` was there: rebalances are told by the server, not inferred."""
    has_ends: bool
    """Whether the ends of the topics are known: lag can be told."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Only what was logged in between, ms since 1970; None: without limit."""
    groups: tuple[str, ...] = ()
    """Only groups that match one of these patterns; none: all."""
    what_if: tuple[str, ...] = ()
    """The settings that were tried, by name."""
    compare: str | int | None = None
    """What it is compared with: the folder of an earlier analysis, or a time (ms) that parts this one."""
    overlap_ms: int = 0
    """For how long an earlier analysis and this one tell of the same time."""


@dataclass(frozen=True, slots=True)
class Some:
    """The first rows of many."""

    rows: Sequence[Row] = ()
    total: int = 0

    @property
    def left(self) -> int:
        """How many are not shown."""
        return max(0, self.total - len(self.rows))


@dataclass(frozen=True, slots=True)
class Story:
    """One group, for its picture."""

    group: str
    shares: Sequence[Row]
    """Its members by generation: generation, start_ms, end_ms, member_id, instance_id, client_id, host, partitions
    (how many), assigned."""
    rebalances: Some
    about: Row
    """Its row of `Chosen.groups`."""
    episodes: Some = field(default_factory=Some)
    """kind, from_ms, until_ms, confidence, told: the newest first."""
    progress: Sequence[Row] = ()
    """start_ms, until_ms, commits, records, written, lag: how it read, in order."""
    is_cut: bool = False
    """Its oldest generations are not among `shares`."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """All of it."""

    about: About
    first_ms: int | None
    last_ms: int | None
    commits: int
    groups: Some
    """The worst first: group, level, verdict, trouble_ms, cost_ms, members (most at once), rebalances,
    paused_partition_ms, moved, longest (took_ms, took_least_ms, took_most_ms), top_cause, score, lag, advice,
    unadvised (why there is none, of a group whose rebalances are trouble)."""
    causes: Sequence[Row]
    """cause, rebalances, took_ms (mean), unread_partition_ms, confidence (mean)."""
    bucket_ms: int
    buckets: Sequence[Row]
    """bucket_ms (its start), cause, is_planned (part of a first formation, or of a stop on purpose), rebalances."""
    stories: Sequence[Story]
    """Of the first groups, in their order."""
    regressions: Some
    stalls: Some
    lag: Some
    static_candidates: Some
    grid: Sequence[Row]
    """Of each setting: setting, settings_json, groups, fewer and more (groups with fewer and more rebalances), less and
    longer (with less and more unread time), rebalances, moved_partitions, paused_partition_s,
    silent_partition_s, unread_partition_s (both together), detect_ms, and the same with `actual_` before it, over the
    groups that could be replayed."""
    advice: Some
    """Rows of the table `advice`: what would have helped most, of the groups for which something sure would."""
    answers: Some = field(default_factory=Some)
    """If few settings were asked for, rows of the table `whatif`, of all groups: those that it helps most first."""
    fidelity: Sequence[Row] = ()
    """source, groups, generations, reproduced, withheld."""
    withheld: Some = field(default_factory=Some)
    """group, share, why."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """How many groups have a verdict of each level (episodes.verdict.LEVELS)."""
    comparison: Some = field(default_factory=Some)
    """Rows of the table `comparison`: the significant ones first, then the greatest differences of cost."""
    compared: Row | None = None
    """The sums of all groups: rebalances, cost_ms, happenings and hours, each with _before and _after; groups; and how
    many of these are of each judgement (episodes.comparison)."""
    odd_rows: Mapping[str, int] = field(default_factory=dict)
    """How many rows of the log were malformed or unknown."""
    odd_reasons: Sequence[Row] = ()
    """kind, reason, rows."""
    odd_times: Some = field(default_factory=Some)
    """Groups of commits with a time that cannot be: group, commits, stated_ms (one of those times)."""
    transaction_ends: Sequence[Row] = ()
    """outcome, cause, transactions, took_ms (mean), longest_ms; none: there was no transaction."""
    transactional_ids: Some = field(default_factory=Some)
    """transactional_id, producer_id (one of them), transactions, aborted, timed_out, taken_over, longest_ms."""
    longest: Some = field(default_factory=Some)
    """Transactions."""
    aborted: Some = field(default_factory=Some)
