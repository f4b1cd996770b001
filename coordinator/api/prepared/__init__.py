"""Requests that a connection sends again and again: a member's heartbeats, its commits."""
