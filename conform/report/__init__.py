"""A run as text, JSON, JUnit's XML, one HTML page, and a badge. Each module has `render(report)`, which is pure."""
