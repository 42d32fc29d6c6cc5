"""A lock or pid file of a process that is gone."""
