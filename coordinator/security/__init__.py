"""Principals, authentication and authorization. This package knows no socket."""
