"""The matrix of brokers: which of them answer as Apache Kafka does."""
