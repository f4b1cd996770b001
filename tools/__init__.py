"""Scripts that make committed files, such as message classes from Kafka's jars. The scripts are not shipped."""
