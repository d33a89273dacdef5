"""Convolutions, their gradients, and the mixers and patches made of them."""
