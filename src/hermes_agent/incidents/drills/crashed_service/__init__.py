"""A web service whose process is gone."""
