"""Tests of clientlint."""
