"""Assignment strategies: pure functions from members with subscriptions to assignments."""
