"""Assignment strategies: pure functions that compute assignments from members and their subscriptions."""
