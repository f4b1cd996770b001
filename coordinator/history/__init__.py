"""The history of groups and transactional ids: `__group_events` and `__transaction_events`, and their readers."""
