"""The history of groups: the topic `__group_events` and what is made of it."""
