"""`muster top`: the groups of any Kafka cluster on the terminal, live. Only this command imports Textual."""
