"""The facts: what the groups did, one small module for each table. See docs/pipeline.md for what each column means."""
