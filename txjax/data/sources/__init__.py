"""Where the records of data sets are: TFDS's prepared sets, and files as they lie."""
