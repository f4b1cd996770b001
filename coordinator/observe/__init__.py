"""What the groups did, for those who ask later: the topic `__group_events` and what is made of it."""
