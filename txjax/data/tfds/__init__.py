"""Records of TFDS."""
