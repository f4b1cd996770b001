"""Measures what the pipeline on Spark costs: `make bench-pipeline` writes ../pipeline.md. Each measure has a module."""
