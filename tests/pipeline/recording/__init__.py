"""Records what real groups do, with the truth about it: `python -m tests.pipeline.recording.record`."""
