"""The content of a page: plain values, limited to what fits on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = Mapping[str, Any]
"""A row of a table, or of a selection of `select`."""


class About(NamedTuple):
    """The facts about one analysis."""

    source: str
    """The source, as the user named it."""
    rows: Mapping[str, int]
    """How many rows of each kind the offsets log had (pipeline.schema.KINDS)."""
    has_events: bool
    """Whether the source had `__group_events`: the server reports rebalances, they are not inferred."""
    has_ends: bool
    """Whether the ends of the topics are known, and so the lag."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Only what was logged in between, ms since 1970; None: without limit."""
    groups: tuple[str, ...] = ()
    """Only groups that match one of these patterns; none: all."""
    what_if: tuple[str, ...] = ()
    """The settings of the what-if, by name."""
    compare: str | int | None = None
    """The other side of a comparison: the folder of an earlier analysis, or a time (ms) that divides this one."""
    overlap_ms: int = 0
    """For how long an earlier analysis and this one cover the same time."""


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
    """Its members by generation: generation, start_ms, end_ms, member_id, instance_id, client_id, host, partitions (how
    many), assigned.
    """
    rebalances: Some
    about: Row
    """Its row of `Chosen.groups`."""
    episodes: Some = field(default_factory=Some)
    """Rows of the table `episodes`, the newest first."""
    progress: Sequence[Row] = ()
    """start_ms, until_ms, commits, records, written, lag: how it read, in order."""
    is_cut: bool = False
    """Its oldest generations are not among `shares`."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The content of all pages."""

    about: About
    first_ms: int | None
    last_ms: int | None
    commits: int
    groups: Some
    """Columns of the groups, the worst group first:

    * group, level, verdict, trouble_ms, cost_ms, members (most at once), rebalances
    * paused_partition_ms, moved, longest (took_ms, took_least_ms, took_most_ms), top_cause, score, lag
    * advice; unadvised (why there is none, for a group whose rebalances are trouble)
    """
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
    """One row for each setting, over the groups that could be replayed:

    * setting, settings_json, groups
    * fewer and more (groups with fewer and more rebalances), less and longer (with less and more unread time)
    * rebalances, moved_partitions, paused_partition_s, silent_partition_s, unread_partition_s (both together),
      detect_ms
    * the same figures with `actual_` before their names
    """
    advice: Some
    """Rows of the table `advice`: what would have helped most, for groups with a sure gain."""
    answers: Some = field(default_factory=Some)
    """Rows of the table `whatif` of all groups, if few settings were requested: the largest gains first."""
    fidelity: Sequence[Row] = ()
    """source, groups, generations, reproduced, withheld."""
    withheld: Some = field(default_factory=Some)
    """group, share, why."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """How many groups have a verdict of each level (episodes.verdict.LEVELS)."""
    comparison: Some = field(default_factory=Some)
    """Rows of the table `comparison`: the significant ones first, then the greatest differences of cost."""
    compared: Row | None = None
    """The sums of all groups: rebalances, cost_ms, happenings and hours, each with _before and _after; groups.

    Also how many of these have each judgement (episodes.comparison).
    """
    odd_rows: Mapping[str, int] = field(default_factory=dict)
    """How many rows of the log were malformed or unknown."""
    odd_reasons: Sequence[Row] = ()
    """kind, reason, rows."""
    odd_times: Some = field(default_factory=Some)
    """Groups of commits with an impossible time: group, commits, stated_ms (one of those times)."""
    transaction_ends: Sequence[Row] = ()
    """outcome, cause, transactions, took_ms (mean), longest_ms; no rows without transactions."""
    transactional_ids: Some = field(default_factory=Some)
    """transactional_id, producer_id (one of them), transactions, aborted, timed_out, taken_over, longest_ms."""
    longest: Some = field(default_factory=Some)
    """Rows of transactions."""
    aborted: Some = field(default_factory=Some)
