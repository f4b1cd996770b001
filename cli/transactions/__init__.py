"""`muster transactions`: show the transactions of a running server. All but `history` works with any Kafka."""
