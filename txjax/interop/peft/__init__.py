"""Adapters of the library peft, both ways."""
