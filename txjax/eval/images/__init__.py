"""Evaluations of images, boxes and masks."""
