"""Trackers: copies of a run's metrics, pictures and tables in dashboards."""
