"""Recorded sound: utterances with their words, and recordings with a class."""
