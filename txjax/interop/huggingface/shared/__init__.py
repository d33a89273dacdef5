"""The families of checkpoints: one file, one table each."""
