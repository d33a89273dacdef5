"""The five requests to an object store: get, put, put if absent, list, delete. Each has a limit of time and tries."""

import itertools
import logging
import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from txjax.io.disk import first_line
from txjax.types import RunError, UserError, require

T = TypeVar("T")
REQUEST_SECONDS = 60.0  # of one request, its body included
LIMIT_SECONDS = 300.0  # of all tries of one request
PAUSE_SECONDS = 15.0  # the longest between two tries
SCHEMES = ("s3", "gs")
_STATUS = re.compile(r"status code: (\d{3})")
# Of the answers below 500 those that a later try may not get.
_AGAIN = re.compile(r"status code: (408|409|425|429)|<Code>(RequestTimeout|BadDigest|XAmzContentSHA256Mismatch)</Code>")
log = logging.getLogger("txjax")


def check_url(field: str, url: str) -> None:
    """Raises UserError unless a URL names a folder of a bucket: `s3://BUCKET/FOLDER`, `gs://BUCKET/FOLDER`."""
    pattern = rf"({'|'.join(SCHEMES)})://[^/]+(/[A-Za-z0-9_.=,@+-]+)+/?"
    if not re.fullmatch(pattern, url) or {".", ".."} & set(url.split("/")):
        expected = "s3://BUCKET/FOLDER or gs://BUCKET/FOLDER, of letters, digits and _ . = , @ + -"
        raise UserError(field, expected, url)


class Bucket:
    """A folder of a bucket.

    All methods raise UserError where no repetition helps (there is no such bucket, no permission, no credentials), and
    RunError if the store can't be reached, or fails, until the time limit.
    """

    def __init__(self, field: str, url: str):
        """Sends no request.

        Args:
          field: the flag that has the URL, for messages.

        Raises:
          UserError: it is no URL of a folder of a bucket, or the package obstore is not installed.
        """
        check_url(field, url)
        require("obstore", "obstore", field, extra="stores")
        from obstore.store import from_url

        self.field = field
        self.url = url
        self._answered = False  # whether any request was
        options: Any = {"timeout": f"{REQUEST_SECONDS:g}s", "connect_timeout": "10s", "allow_http": True}
        try:
            self._store = from_url(url, client_options=options, retry_config={"max_retries": 0})
        except Exception as error:
            raise UserError(field, "a bucket that can be opened", url, hint=_short(error)) from None

    def read(self, key: str) -> bytes | None:
        """The content of an object; None if there is none."""
        return self._repeat(key, lambda: bytes(self._store.get(key).bytes()), absent=None)

    def write(self, key: str, content: bytes) -> None:
        """Creates or replaces an object."""
        self._repeat(key, lambda: self._store.put(key, content, use_multipart=False))

    def create(self, key: str, content: bytes) -> bool:
        """Creates an object, complete at once. Returns False if there is one of other content.

        A try whose answer is lost may have created it: the next one finds the content, which no other writer has.
        """
        return self._repeat(key, lambda: self._create(key, content))

    def _create(self, key: str, content: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        try:
            self._store.put(key, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            known = self.read(key)
            if known is None:  # two creations at once, of which the store has refused both
                raise
            return known == content
        return True

    def names(self, folder: str) -> list[str]:
        """The names of all objects of a folder, sorted."""
        pages = self._repeat(folder, lambda: list(self._store.list(f"{folder}/")))
        return sorted(entry["path"].removeprefix(f"{folder}/") for page in pages for entry in page)

    def remove(self, keys: Sequence[str]) -> None:
        """Removes objects; those that are not there count as removed."""
        if keys:
            self._repeat(keys[0], lambda: self._store.delete(list(keys)), absent=None)

    def _repeat(self, key: str, act: Callable[[], T], **absent: Any) -> T:
        """Calls `act` until it returns, or until its error is final. `absent`: what is returned without an object."""
        deadline = time.monotonic() + LIMIT_SECONDS
        for number in itertools.count(1):
            try:
                value = act()
                self._answered = True
                return value
            except FileNotFoundError as error:
                if "absent" in absent and "NoSuchBucket" not in str(error):
                    return absent["absent"]
                raise self._final(error) from None
            except Exception as error:
                if _is_final(error) or _without_credentials(error) and not self._answered:
                    raise self._final(error) from None
                pause = min(PAUSE_SECONDS, 0.1 * 2**number) * random.uniform(0.5, 1.0)
                # A process that was stopped during its first try has another one.
                if number > 1 and time.monotonic() + pause > deadline:
                    message = f"{self.url}/{key} cannot be reached: {_short(error)}; {number} tries"
                    raise RunError(message) from error
                if number == 3:
                    log.warning("%s: %s; trying again for %.0f s at most", self.url, _short(error), LIMIT_SECONDS)
                time.sleep(pause)
        raise AssertionError

    def _final(self, error: Exception) -> UserError:
        return UserError(self.field, "a bucket that can be read and written", self.url, hint=_short(error))


def _is_final(error: Exception) -> bool:
    """Whether the same request will always fail."""
    from obstore import exceptions

    if isinstance(error, UserError | RunError):
        return True
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return True
    status = _STATUS.search(str(error))
    return status is not None and 400 <= int(status[1]) < 500 and not _AGAIN.search(str(error))


def _without_credentials(error: Exception) -> bool:
    """Whether credentials were looked for in the last place: at the metadata server of a cloud's own machines."""
    return "169.254.169.254" in str(error) or "metadata.google.internal" in str(error)


def _short(error: Exception) -> str:
    """The reason in the store's answer, or in the client's message."""
    text = str(error)
    if _without_credentials(error):
        return "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or GOOGLE_APPLICATION_CREDENTIALS"
    status = _STATUS.search(text)
    code = re.search(r"<Code>(\w+)</Code>", text)
    if status:
        return f"its answer is {status[1]}" + (f", {code[1]}" if code else "")
    causes = re.findall(r'(?:message|error): "([^"\n]+)"', text)
    return (causes[-1] if causes else first_line(error).split(" - ")[-1])[:200]
