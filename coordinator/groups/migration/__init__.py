"""Groups that change their protocol while they have members (`group.consumer.migration.policy`).

The first ConsumerGroupHeartbeat makes a classic group a consumer group. It is one until the last member of the consumer
protocol leaves. The records of each such change are one batch.
"""
