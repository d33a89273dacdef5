"""A scoped value is that of the innermost block, in its own thread."""

import threading

from txjax.scoped import Scoped


def test_the_innermost_block_counts_and_an_error_ends_it() -> None:
    level = Scoped("level", 0)
    with level.within(1) as value:
        try:
            with level.within(2):
                assert level.get() == 2
                raise ValueError
        except ValueError:
            pass
        assert level.get() == value == 1
    assert level.get() == 0


def test_another_thread_has_the_default() -> None:
    level, values = Scoped("level", 0), []
    with level.within(1):
        thread = threading.Thread(target=lambda: values.append(level.get()))
        thread.start()
        thread.join()
    assert values == [0]
