"""Sets of audio."""
