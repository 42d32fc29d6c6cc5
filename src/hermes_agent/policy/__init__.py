"""The gate, its rules, and redaction."""
