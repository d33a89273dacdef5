"""TFDS builders that come with txjax: data without a network."""
