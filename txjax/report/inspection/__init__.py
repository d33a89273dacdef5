"""Pictures and pages of what a model's attention reads, for `txjax inspect`."""
