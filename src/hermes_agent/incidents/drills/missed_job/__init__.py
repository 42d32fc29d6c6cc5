"""A job that cron no longer runs."""
