"""Stacks of blocks: kinds of layers, shared layers, the pipeline, rematerialisation."""
