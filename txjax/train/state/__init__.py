"""The state of a run: its layout, its first values, its restoration."""
