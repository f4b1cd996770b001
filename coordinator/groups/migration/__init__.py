"""Groups that change their protocol while they have members (`group.consumer.migration.policy`).

The first ConsumerGroupHeartbeat makes a classic group a consumer group, until its last such member leaves. The records
of each change are one batch.
"""
