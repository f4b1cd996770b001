"""Every threshold of episodes and verdicts. docs/pipeline-episodes.md has the same numbers in words (a test)."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.common.unstable_members import LOOP_MS, LOOPS, MINUTE, RETURN_MS, SECOND, TWO_LOOP

__all__ = ["LOOPS", "LOOP_MS", "MINUTE", "RETURN_MS", "SECOND", "TWO_LOOP"]

EXCHANGE_MS: Final = 15 * SECOND
"""Another process that comes so soon after one left has taken its place (RETURN_MS if that one died)."""
OVERLAP_MS: Final = 2 * MINUTE
"""A process of a deploy comes at most so long before the one whose place it takes goes."""
TOGETHER_MS: Final = 5 * MINUTE
"""What follows each other so soon is one restart, one scale-out, one change."""
STOP_MS: Final = MINUTE
"""Members that went so soon before the last one went with it."""
FORM_MS: Final = 15 * SECOND
"""A member that comes so soon after another one belongs to the same formation."""
SECOND_ROUND_MS: Final = 10 * SECOND
"""A rebalance with the same members, so soon after another one, is its second round."""
MOMENT_MS: Final = 10 * SECOND
"""Members of several groups were last heard of at the same moment if that lies within three of these."""

SLOW_TWICE: Final = 2
"""So often a process must have been put out, if only its commits say that it was slow."""
SLOW_SHARE: Final = 0.8
"""It was slow if its last commit was this share of its rebalance timeout, or more, before it went."""
SLOW_MOST: Final = 1.5
"""and at most this: after a longer one it had nothing to commit."""
SLOW_SESSIONS: Final = 2
"""A rebalance timeout of no more sessions than this does not tell a slow member from a dead one: LOOPS times count."""
AT_ONCE: Final = 3
"""Members of so many groups that are lost at the same moment may be trouble of the coordinator or the network,"""
AT_ONCE_SHARE: Final = 0.3
"""if these are so large a share of all groups that have had members."""
AROUND_MS: Final = 5 * MINUTE
"""A group that loses other members so long before or after loses some at any moment: it counts for less,"""
BY_CHANCE: Final = 0.5
"""and what all count for may be less than their number by this."""
SILENCE_MS: Final = 8 * SECOND
"""So long nobody commits though AT_ONCE groups did all the time: the coordinator is away, or the network."""
LOST_SESSIONS: Final = 4
"""A member that left, or was replaced, was lost if it had not committed for a session; after so many sessions it had
nothing to commit."""

RESTLESS_SCORE: Final = 50.0
"""A group with this flapping score is restless, whatever its rebalances are."""
RESTLESS_LEAST: Final = 10
"""With so many rebalances, those of its first formation and of whole stops not counted."""
GOES_ON: Final = 3
"""What happens again and again goes on until it is overdue by so many times its usual distance (a minute at least)."""
AGAIN_MS: Final = 60 * MINUTE
"""Trouble that ended longer than this before the log did is told as over."""
