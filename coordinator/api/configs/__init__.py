"""Handlers of the configs of topics, brokers, groups, client metrics and loggers."""
