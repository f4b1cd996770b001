"""What the pipeline on Spark costs: `make bench-pipeline`, results in ../pipeline.md. A module for each measure."""
