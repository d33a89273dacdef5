"""The parts of `accelerator.py`, a file each.

Each has TITLE, `run(book, tiny)`, which measures its cases through `book.case`, and `table(book)`: columns
and rows, from the records alone.
"""
