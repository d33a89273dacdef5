"""A run on paper: what it takes on devices that need not be there."""
