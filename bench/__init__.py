"""What the server costs, beside a real Apache Kafka: `make bench`, results in results.md."""
