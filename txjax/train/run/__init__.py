"""What surrounds the loop of a run: its folder, lock, signals, clocks."""
