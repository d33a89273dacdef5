"""One trunk for tasks of several modalities."""
