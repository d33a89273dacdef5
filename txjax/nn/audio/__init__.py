"""Audio: front ends from waveforms to features, augmentations of both, and layers of models of audio."""
