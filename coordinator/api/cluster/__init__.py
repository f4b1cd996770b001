"""Handlers of questions about the cluster: brokers, leaders, coordinators, API versions, log directories."""
