"""Recording what real groups do, with a truth about it: `python -m tests.pipeline.recording.record`."""
