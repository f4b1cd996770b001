"""Assignment strategies: pure functions from members with subscriptions to assignments.

May import only `muster.protocol`.
"""
