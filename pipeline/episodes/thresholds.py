"""Every threshold of episodes and verdicts. docs/pipeline-episodes.md has the same numbers (a test checks that)."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.common.events import LOOP_MS, LOOPS, MINUTE, RETURN_MS, SECOND, TWO_LOOP

__all__ = ["LOOPS", "LOOP_MS", "MINUTE", "RETURN_MS", "SECOND", "TWO_LOOP"]

EXCHANGE_MS: Final = 15 * SECOND
"""Another process that joins so soon after one left has replaced it (RETURN_MS if that one died)."""
OVERLAP_MS: Final = 2 * MINUTE
"""A process of a deploy joins at most so long before the one that it replaces goes."""
TOGETHER_MS: Final = 5 * MINUTE
"""Changes that follow each other so soon are one restart, one scale-out, one change."""
STOP_MS: Final = MINUTE
"""Members that left so soon before the last one left with it."""
FORM_MS: Final = 15 * SECOND
"""A member that joins so soon after another one belongs to the same formation."""
SECOND_ROUND_MS: Final = 10 * SECOND
"""A rebalance with the same members, so soon after another one, is its second round."""
MOMENT_MS: Final = 10 * SECOND
"""Members of several groups were last heard of at the same moment if that lies within three of these."""

SLOW_TWICE: Final = 2
"""If only its commits show that a process was slow, it must have been removed so often."""
SLOW_SHARE: Final = 0.8
"""A member was slow if it had not committed for this share of its rebalance timeout when it went."""
SLOW_MAX: Final = 1.5
"""A member that had not committed for a longer share of its rebalance timeout had nothing to commit."""
SLOW_SESSIONS: Final = 2
"""If a rebalance timeout has no more sessions than this, a slow member looks like a dead one.

Then LOOPS times are needed.
"""
AT_ONCE: Final = 3
"""The least number of groups that lose members at the same moment in trouble of the coordinator or the network."""
AT_ONCE_SHARE: Final = 0.3
"""The least share of these groups among all groups that have had members."""
AROUND_MS: Final = 5 * MINUTE
"""A group counts for less if it also loses members so long before or after the moment."""
BY_CHANCE: Final = 0.5
"""How much less than the number of groups the sum of what they count for may be."""
SILENCE_MS: Final = 8 * SECOND
"""If nobody commits for so long though AT_ONCE groups did all the time, coordinator or network is away."""
LOST_SESSIONS: Final = 4
"""A member that left, or was replaced, was lost if it had not committed for a session.

After so many sessions it had nothing to commit.
"""

UNSTABLE_SCORE: Final = 50.0
"""A group with this flapping score is unstable, whatever the causes of its rebalances are."""
UNSTABLE_MIN: Final = 10
"""An unstable group has at least so many rebalances, without those of its first formation and of whole stops."""
GOES_ON: Final = 3
"""A repeated event is over when it is late by so many of its usual intervals (a minute at least)."""
AGAIN_MS: Final = 60 * MINUTE
"""Trouble that ended longer than this before the end of the log is reported as over."""
