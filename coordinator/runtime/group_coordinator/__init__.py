"""The group coordinator's side of the runtime: records as bytes, answers when it cannot serve, log lines."""
