"""Handlers of APIs about the configs of topics, brokers, groups, client metrics and loggers."""
