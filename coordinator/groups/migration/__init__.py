"""Groups that change their protocol while they have members (`group.consumer.migration.policy`).

A classic group becomes a consumer group with the first ConsumerGroupHeartbeat, and a consumer group a classic one when
the last member goes that is not a classic one. One batch of records each.
"""
