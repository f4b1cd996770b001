"""Load for any server that speaks Kafka's protocol: the same client work for every server measured."""
