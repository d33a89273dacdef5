"""Layers without positions: linear, embeddings, MLPs, experts, norms."""
