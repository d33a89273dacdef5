"""Models of audio."""
