"""Recurrent layers: cells, their loop over the positions, attention inside and after it, outputs."""
