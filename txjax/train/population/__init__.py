"""Several runs as one program."""
