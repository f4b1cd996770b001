"""The history of groups and transactional ids: the topic `__group_events` and its like, and their readers."""
