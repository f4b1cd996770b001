"""Groups that change their protocol while they have members (`group.consumer.migration.policy`).

The first ConsumerGroupHeartbeat makes a classic group a consumer group. A consumer group becomes a classic group when
its last member of the consumer protocol leaves. The records of each change are one batch.
"""
