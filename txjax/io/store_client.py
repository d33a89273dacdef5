"""Requests to an object store or a web server: each has a limit of time and of tries, and a message of one line."""

import itertools
import logging
import random
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from txjax.errors import RunError, UserError, require
from txjax.io.disk import first_line

T = TypeVar("T")
REQUEST_SECONDS = 60.0  # of one request, its body included
LIMIT_SECONDS = 300.0  # of all tries of one request
PAUSE_SECONDS = 15.0  # the longest between two tries
_STATUS = re.compile(r"status code: (\d{3})")
# Of the answers below 500 those that a later try may not get.
_AGAIN = re.compile(r"status code: (408|409|425|429)|<Code>(RequestTimeout|BadDigest|XAmzContentSHA256Mismatch)</Code>")
_ELSEWHERE = "redirect without LOCATION"  # the answer to a request in another region than the bucket's
log = logging.getLogger("txjax")


class StoreClient:
    """A store, or a folder of it, and how requests to it are repeated.

    `repeat` raises UserError where no repetition helps (there is no such bucket, no permission, no credentials), and
    RunError if the store can't be reached, or fails, until the time limit.

    Attributes:
      field: the flag or field that has the URL, for messages.
      url: of the store or of the folder.
      store: obstore's, whose keys are relative to `url`.
    """

    def __init__(self, field: str, url: str, expected: str):
        """Sends no request.

        Args:
          expected: what the URL has to name, for messages.

        Raises:
          UserError: the URL can't be one, or the package obstore is not installed.
        """
        require("obstore", "obstore", field, extra="stores")
        from obstore.store import from_url

        self.field = field
        self.url = url
        self._expected = expected
        self._answered = False  # whether any request was
        options: Any = {"timeout": f"{REQUEST_SECONDS:g}s", "connect_timeout": "10s", "allow_http": True}
        try:
            self.store = from_url(url, client_options=options, retry_config={"max_retries": 0})
        except Exception as error:
            raise UserError(field, "a bucket that can be opened", url, hint=_short(error)) from None

    def repeat(self, key: str, act: Callable[[], T], **absent: Any) -> T:
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
                raise self.final_error(key, error) from None
            except Exception as error:
                if _is_final(error) or _without_credentials(error) and not self._answered:
                    raise self.final_error(key, error) from None
                pause = min(PAUSE_SECONDS, 0.1 * 2**number) * random.uniform(0.5, 1.0)
                # A process that was stopped during its first try has another one.
                if number > 1 and time.monotonic() + pause > deadline:
                    message = f"{self.url}/{key} cannot be reached: {_short(error)}; {number} tries"
                    raise RunError(message) from error
                if number == 3:
                    log.warning("%s: %s; trying again for %.0f s at most", self.url, _short(error), LIMIT_SECONDS)
                time.sleep(pause)
        raise AssertionError

    def final_error(self, key: str, error: Exception) -> UserError:
        """The error of a request for an object, or for a list, that will always fail."""
        return UserError(self.field, self._expected, self.url, hint=_short(error))


def _is_final(error: Exception) -> bool:
    """Whether the same request will always fail."""
    from obstore import exceptions

    refusals = exceptions.PermissionDeniedError | exceptions.UnauthenticatedError | exceptions.NotSupportedError
    if isinstance(error, refusals | ValueError | RunError):
        return True
    status = _STATUS.search(str(error))
    final = _ELSEWHERE in str(error) or status is not None and 400 <= int(status[1]) < 500
    return final and not _AGAIN.search(str(error))


def _without_credentials(error: Exception) -> bool:
    """Whether credentials were looked for in the last place: at the metadata server of a cloud's own machines."""
    return "169.254.169.254" in str(error) or "metadata.google.internal" in str(error)


def _short(error: Exception) -> str:
    """The reason in the store's answer, or in the client's message."""
    text = str(error)
    if _without_credentials(error):
        return "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or GOOGLE_APPLICATION_CREDENTIALS"
    if _ELSEWHERE in text:
        return "the bucket is in another region: set AWS_REGION"
    status = _STATUS.search(text)
    code = re.search(r"<Code>(\w+)</Code>", text)
    if status:
        return f"its answer is {status[1]}" + (f", {code[1]}" if code else "")
    causes = re.findall(r'(?:message|error): "([^"\n]+)"', text)
    return (causes[-1] if causes else first_line(error).split(" - ")[-1])[:200]
