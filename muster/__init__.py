"""Muster: a Kafka group coordinator that runs on its own. The rooms are links to the repository's top-level folders."""
