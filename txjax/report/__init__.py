"""What runs logged, as tables, pictures and pages."""
