"""From records to batches: order, buckets, workers, mixtures, limits."""
