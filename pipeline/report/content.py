"""The content of a page: plain values, and no more rows than fit on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = Mapping[str, Any]
"""A row of a table, or of a selection of `select`."""


class About(NamedTuple):
    """The facts about one analysis."""

    source: str
    """The name of the source, as the user gave it."""
    rows: Mapping[str, int]
    """The number of rows of each kind (pipeline.schema.KINDS) in the offsets log."""
    has_events: bool
    """Whether the source has `__group_events`. Then the server reported the rebalances; otherwise they are inferred."""
    has_ends: bool
    """Whether the ends of the topics are known, and therefore the lag."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Only records logged before this time and from `since_ms` on are used (ms since 1970); None means no limit."""
    groups: tuple[str, ...] = ()
    """The analysis has only groups that match one of these patterns; empty: all groups."""
    what_if: tuple[str, ...] = ()
    """The names of the settings of the what-if."""
    compare: str | int | None = None
    """The other side of a comparison: the folder of an earlier analysis, or a time (ms) that divides this one."""
    overlap_ms: int = 0
    """How long the time is that an earlier analysis and this one both cover."""


@dataclass(frozen=True, slots=True)
class Some:
    """The first of many rows."""

    rows: Sequence[Row] = ()
    total: int = 0

    @property
    def left(self) -> int:
        """The number of rows that are not shown."""
        return max(0, self.total - len(self.rows))


@dataclass(frozen=True, slots=True)
class Story:
    """The story of one group: the content of its section on the page, with its picture."""

    group: str
    shares: Sequence[Row]
    """The group's members in each generation: generation, start_ms, end_ms, member_id, instance_id, client_id, host,
    partitions (their number), assigned.
    """
    rebalances: Some
    about: Row
    """The group's row of `Chosen.groups`."""
    episodes: Some = field(default_factory=Some)
    """The group's rows of the table `episodes`, the newest first."""
    progress: Sequence[Row] = ()
    """How the group read, in the order of time: start_ms, until_ms, commits, records, written, lag."""
    is_cut: bool = False
    """Whether the oldest generations are left out of `shares`."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The content of all pages."""

    about: About
    first_ms: int | None
    last_ms: int | None
    commits: int
    groups: Some
    """A row for each group, the worst group first, with these columns:

    * group, level, verdict, trouble_ms, cost_ms, members (the most at one time), rebalances
    * paused_partition_ms, moved, longest (took_ms, took_least_ms, took_most_ms), score, lag
    * top_cause (of at least LOOPS rebalances), claims (of the table `verdicts`)
    * advice; unadvised (why there is none, for a group whose rebalances are trouble)
    """
    causes: Sequence[Row]
    """The causes of rebalances: cause, rebalances, unread_partition_ms, confidence (mean).

    Also took_ms, took_least_ms and took_most_ms (means).
    """
    bucket_ms: int
    buckets: Sequence[Row]
    """Rows about rebalances over time: bucket_ms (its start), cause, is_planned, rebalances.

    Also `group`: the group with most of these rebalances.

    `is_planned` means that they are part of a first formation, or of a stop on purpose.
    """
    stories: Sequence[Story]
    """The stories of the first groups, in the order of `groups`."""
    regressions: Some
    stalls: Some
    lag: Some
    static_candidates: Some
    grid: Sequence[Row]
    """A row for each setting, with sums over the groups that could be replayed:

    * setting, settings_json, groups
    * fewer and more (groups with fewer and more rebalances), less and longer (with less and more unread time)
    * rebalances, moved_partitions, paused_partition_s, silent_partition_s, unread_partition_s (both together),
      detect_ms
    * the same figures with `actual_` before their names
    """
    advice: Some
    """Rows of the table `advice`: the setting that would have helped most, for each group with a sure gain."""
    answers: Some = field(default_factory=Some)
    """Rows of the table `whatif`, of all groups, with the largest gains first. They are left out if many settings were
    requested.
    """
    fidelity: Sequence[Row] = ()
    """Rows about the fidelity of the what-if: source, groups, generations, reproduced, withheld."""
    withheld: Some = field(default_factory=Some)
    """The groups whose what-if is withheld: group, share, why."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """For each level (episodes.verdict.LEVELS), the number of groups whose verdict has it."""
    comparison: Some = field(default_factory=Some)
    """Rows of the table `comparison`. The significant ones come first, then the greatest differences of cost."""
    compared: Row | None = None
    """The sums of all groups: rebalances, cost_ms, happenings and hours, each with _before and _after; and the number
    of groups.

    Also the number of groups with each judgement (episodes.comparison).
    """
    shared: Some = field(default_factory=Some)
    """Rows of the table `share_partitions`, the farthest behind first."""
    deliveries: Some = field(default_factory=Some)
    """Rows of the table `deliveries`. Records that were accepted come last."""
    unready: Some = field(default_factory=Some)
    """Rows of the table `topologies` with trouble, the newest first."""
    unowned: Some = field(default_factory=Some)
    """Rows of the table `tasks`: active tasks that nobody had before, for the longest time first."""
    progress: Sequence[Row] = ()
    """How all groups together read, in the form of `Story.progress`.

    The lag has only groups whose lag is known at all times.
    """
    silences: Some = field(default_factory=Some)
    """Rows of the table `silences`: the times without a sign of life of any group, the longest first."""
    odd_rows: Mapping[str, int] = field(default_factory=dict)
    """The number of rows in the log that were malformed, and that were unknown."""
    odd_reasons: Sequence[Row] = ()
    """Why rows were malformed or unknown: kind, reason, rows."""
    odd_times: Some = field(default_factory=Some)
    """The groups with commits at an impossible time: group, commits, stated_ms (one of the impossible times)."""
    transaction_ends: Sequence[Row] = ()
    """How transactions ended: outcome, cause, transactions, took_ms (mean), longest_ms. Empty: no transactions."""
    transactional_ids: Some = field(default_factory=Some)
    """The transactional ids: transactional_id, producer_id (one of them), transactions, aborted, timed_out, taken_over,
    longest_ms.
    """
    longest: Some = field(default_factory=Some)
    """Rows of the table `transactions`: the longest transactions."""
    aborted: Some = field(default_factory=Some)
