"""All thresholds of episodes and verdicts. The reference of tables on the docs' site shows them with their meanings."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.common.events import LOOP_MS, LOOPS, MINUTE, RETURN_MS, SECOND, TWO_LOOP

__all__ = ["LOOPS", "LOOP_MS", "MINUTE", "RETURN_MS", "SECOND", "TWO_LOOP"]

EXCHANGE_MS: Final = 15 * SECOND
"""A new process that joins within this time after another one left has replaced it (RETURN_MS if that one died)."""
OVERLAP_MS: Final = 2 * MINUTE
"""In a deploy that overlaps, a new process joins at most this long before the process that it replaces leaves."""
TOGETHER_MS: Final = 5 * MINUTE
"""Changes within this time of each other belong to one restart, one scale-out or one other change."""
STOP_MS: Final = MINUTE
"""A member that left at most this long before the last member belongs to the same stop."""
FORM_MS: Final = 15 * SECOND
"""A member that joins within this time after another member belongs to the same formation."""
SECOND_ROUND_MS: Final = 10 * SECOND
"""A rebalance with the same members, within this time after another rebalance, is its second round."""
MOMENT_MS: Final = 10 * SECOND
"""Members were last heard of at the same moment if their signs of life lie within three times this length."""

SLOW_TWICE: Final = 2
"""If only commits show that a process was slow, they must show it at least this many times."""
SLOW_SHARE: Final = 0.8
"""A member was slow if its last commit was at least this share of its rebalance timeout before its end."""
SLOW_MAX: Final = 1.5
"""After a larger share of its rebalance timeout without a commit, the member had nothing to commit."""
SLOW_SESSIONS: Final = 2
"""If a rebalance timeout has at most this many session timeouts, a slow member looks like a dead one. Then commits must
show that it was slow LOOPS times.
"""
AT_ONCE: Final = 3
"""Coordinator or network were in trouble if at least this many groups lost members at the same moment."""
AT_ONCE_SHARE: Final = 0.5
"""These groups must be at least this share of all groups that have had members."""
AROUND_MS: Final = 5 * MINUTE
"""A group counts for less if it also loses members within this time before or after the moment."""
BY_CHANCE: Final = 0.5
"""The sum of these groups' counts may be this much below the needed number of groups."""
SILENCE_MS: Final = 8 * SECOND
"""Coordinator or network were away if nobody commits for this time, though AT_ONCE groups did before and after."""
BACK_MS: Final = MINUTE
"""After such a silence, a group has this long, and one session, until its members are back."""
CONNECT_MS: Final = 30 * SECOND
"""Some clients wait for this long between two attempts to connect."""
LATE_MS: Final = 5 * SECOND
"""A commit this soon after the end of a member's stay is that member's own late commit."""
LOST_SESSIONS: Final = 4
"""A member that left, or was replaced, was lost if its last commit was a session timeout before. After this many
session timeouts without a commit, the member had nothing to commit.
"""

HARDLY: Final = 0.65
"""With at most this confidence, nobody knows whether a member left or was lost."""
UNSTABLE_SCORE: Final = 50.0
"""A group with at least this flapping score is unstable, whatever the causes of its rebalances are."""
UNSTABLE_MIN: Final = 10
"""An unstable group has at least this many rebalances, not counting its first formation and its whole stops."""
GOES_ON: Final = 3
"""A repeated event is over when it is late by this many of its usual intervals (a minute at least)."""
AGAIN_MS: Final = 60 * MINUTE
"""Trouble that ended longer than this before the end of the log is reported as over."""

MIXED_MS: Final = 30 * SECOND
"""At the end of the log, members that read different topics for this time are perhaps two applications."""
TREND_STEPS: Final = 8
"""A trend of the lag needs at least this many steps of the table `progress`."""
TREND_COMMITS: Final = 4
"""If a group commits rarely, its lag must have grown at this many commits. It grew at most so many times faster."""
TREND_MS: Final = 90 * SECOND
"""A trend of the lag needs at least this long a window."""
TREND_CLEAR: Final = 6
"""The lag must change by this many times its usual distance from the straight line of the trend."""
BEHIND_MS: Final = MINUTE
"""A group is too slow if it is behind by as many records as producers write in this time."""
FAR_SHARE: Final = 10
"""A member is far behind in another partition if its lag there is at least one part of this many."""
SLOW_ALONE: Final = 0.8
"""If a member has at least this share of the lag of its group, only this member is too slow."""
IN_TURN_MS: Final = MINUTE
"""A consumer that is too slow reads each of its partitions again within this time."""
SETTLE_MS: Final = 100 * SECOND
"""A partition stands still if its owner is silent for this time, though records are unread."""
USUAL_GAPS: Final = 5
"""It must be silent for this many of its usual times between two commits, too."""
LONGEST_GAPS: Final = 1.5
"""And for this many of its longest times between two commits."""
AGAIN_COMMITS: Final = 4
"""With this many commits of the same offset, a record is tried again and again."""
SERIES_MS: Final = 10 * MINUTE
"""If commits of two programs follow each other within this time, they are one incident."""
SERIES: Final = 3
"""If two programs commit, the commits of a partition go back and return at least this many times."""

WAITED_MS: Final = 30 * SECOND
"""A member keeps others waiting if it is the only one that holds up a rebalance for this time."""
STUCK_MS: Final = 5 * MINUTE
"""A rebalance that lasts for this time is stuck."""
POISON_TIMES: Final = 3
"""A record of a share group fails if it was delivered at least this many times, and not accepted."""
LOCK_MS: Final = SECOND
"""The shortest lock that Kafka allows. A member that gave records back sooner did so by itself."""
STARVED_MS: Final = MINUTE
"""A worker of a share group hangs, or has no work, if no record is done for this time."""
STARVED_RECORDS: Final = 20
"""In this time, the other workers must have accepted at least this many records."""
UNREADY_MS: Final = 20 * SECOND
"""Topics of a streams group that are not ready for a shorter time are not worth a word."""
BOUNCE_MS: Final = 10 * MINUTE
"""A task bounces if it is back within this time."""
WARMUP_MS: Final = 10 * MINUTE
"""A warm-up that lasts for this time perhaps never ends."""
ALL_TASKS: Final = 2
ALL_MS: Final = 5 * MINUTE
"""An instance has all of at least so many tasks for this time, though others have none."""
SHORT_MS: Final = 60 * MINUTE
"""If the log covers a group for less than this, the times have seconds."""
