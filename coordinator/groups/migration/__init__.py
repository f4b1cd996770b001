"""Groups that change their protocol while they have members (`group.consumer.migration.policy`).

The first ConsumerGroupHeartbeat makes a classic group a consumer group. The group becomes a classic group again when
the last member of the consumer protocol leaves. The records of each such change are one batch.
"""
