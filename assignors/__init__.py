"""Assignment strategies: pure functions from members with subscriptions to assignments; may import only `muster.protocol`."""
