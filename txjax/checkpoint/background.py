"""Jobs in the background, one after another; the error of one is raised in the thread that trains."""

import threading
from collections.abc import Callable


class Background:
    """Runs jobs in threads, each after the one before it has ended. After an error it runs no more of them."""

    def __init__(self) -> None:
        self._newest: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self, name: str, job: Callable[[], None]) -> None:
        """Starts a job; never waits.

        Args:
          name: of its thread, in reports of what each thread does.
        """
        before = self._newest

        def run() -> None:
            if before is not None:
                before.join()
            if self._failure is not None:
                return
            try:
                job()
            except BaseException as error:  # noqa: B036 - raised again by `wait` in the training thread
                self._failure = error

        self._newest = threading.Thread(target=run, name=name)
        self._newest.start()

    def wait(self) -> None:
        """Waits until all jobs have ended. Raises the error of one, if any."""
        if self._newest is not None:
            self._newest.join()
        self.poll()

    def poll(self) -> None:
        """Raises the error of a job once all have ended; never waits."""
        if self._newest is not None and not self._newest.is_alive():
            self._newest = None
            failure = self._failure
            self._failure = None
            if failure is not None:
                raise failure
