"""Handlers of APIs about the cluster: brokers, leaders, coordinators, API versions and log directories."""
