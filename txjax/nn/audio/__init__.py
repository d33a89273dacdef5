"""Audio: from waveforms to features, and the augmentations of both."""
