"""Uploads a folder to the Hugging Face Hub as one commit, with huggingface_hub (the extra `hub`)."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from txjax.errors import RunError, UserError, require

if TYPE_CHECKING:
    from huggingface_hub import HfApi

T = TypeVar("T")
SECONDS = 60.0  # that the Hub may take to answer a request, or to take the next bytes of one
PAUSES = (1.0, 4.0)  # seconds before each further try
_AGAIN = (408, 409, 412, 429)  # answers below 500 that a later try may not get; 412: another commit came between
_LOGIN = "run `hf auth login`, or set HF_TOKEN"
_KEPT = ".gitattributes"  # what the Hub itself writes into a new repository


@dataclasses.dataclass(frozen=True)
class Repository:
    """A repository of a model on the Hub, of which a folder becomes the content.

    Attributes:
      name: its id, `owner/name`.
      visibility: private or public, if it doesn't exist yet.
      replace: whether a repository that has files becomes the folder; else it is refused.
    """

    name: str
    visibility: str = "private"
    replace: bool = False

    def check(self) -> None:
        """Asks the Hub, before anything is done, whether a folder may be uploaded. Changes nothing.

        Raises:
          UserError: huggingface_hub or a token is missing, the name is no id, or the repository has other content.
          RunError: the Hub can't be reached, or fails each time.
        """
        api = self._client()
        _, files = self._repeat(lambda: self._head(api))
        self._check_content(files)

    def push(self, folder: Path, message: str) -> str:
        """Makes a folder the content of the repository, which is created if it is missing.

        The files that changed are uploaded, then one commit has all of them: a reader never sees a part. What fails is
        repeated, also a commit whose answer was lost.

        Returns:
          The address of the repository.

        Raises:
          UserError: the Hub refuses the token, the right to write, or a file.
          RunError: the Hub can't be reached, or fails each time.
        """
        api = self._client()
        return self._repeat(lambda: self._commit(api, folder, message))

    def _commit(self, api: HfApi, folder: Path, message: str) -> str:
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        address = api.create_repo(self.name, private=self.visibility == "private", exist_ok=True)
        head, present = self._head(api)
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        others = present - set(files)
        self._check_content(others)
        added = [CommitOperationAdd(name, str(path)) for name, path in files.items()]
        deleted = [CommitOperationDelete(name) for name in sorted(others)]
        api.create_commit(self.name, [*deleted, *added], commit_message=message, parent_commit=head)
        return str(address)

    def _head(self, api: HfApi) -> tuple[str | None, set[str]]:
        """The last commit of the repository and its files; None and no files if it doesn't exist."""
        from huggingface_hub.errors import RepositoryNotFoundError

        try:
            info = api.model_info(self.name)
        except RepositoryNotFoundError as error:
            if error.response.status_code != 404:
                raise
            return None, set()
        return info.sha, {file.rfilename for file in info.siblings or ()} - {_KEPT}

    def _check_content(self, files: set[str]) -> None:
        """Raises UserError if these files of the repository may not be replaced."""
        if files and not self.replace:
            hint = f"{min(files)} is in it; --replace makes the folder its content"
            raise UserError("--push", "a new or an empty repository", self.name, hint=hint)

    def _client(self) -> HfApi:
        """The client of the library, whose requests have a time limit."""
        require("huggingface_hub", "huggingface_hub", "--push", extra="hub")
        import huggingface_hub
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id

        with contextlib.suppress(HFValidationError):
            validate_repo_id(self.name)
            if "/" in self.name:
                if huggingface_hub.get_token() is None:
                    raise UserError("--push", "a token of the Hub", hint=_LOGIN)
                huggingface_hub.get_session().timeout = SECONDS
                return huggingface_hub.HfApi()
        raise UserError("--push", "the id of a repository, owner/name", self.name)

    def _repeat(self, act: Callable[[], T]) -> T:
        """Calls `act` until it returns, at most as often as there are pauses and once more."""
        import httpx2
        from huggingface_hub.errors import HfHubHTTPError

        for pause in (*PAUSES, None):
            try:
                return act()
            except HfHubHTTPError as error:
                status = error.response.status_code
                reason = f"{status} {error.server_message or error.response.reason_phrase}".partition("\n")[0]
                if status < 500 and status not in _AGAIN:
                    raise self._refusal(status, reason) from None
            except (httpx2.TransportError, ConnectionError, TimeoutError, RuntimeError) as error:
                cause = error.__cause__ or error  # the upload of a file raises RuntimeError from what went wrong
                reason = str(cause).partition("\n")[0] or type(cause).__name__
            if pause is None:
                raise RunError(f"--push={self.name}: the Hub fails each time: {reason}")
            time.sleep(pause)
        raise AssertionError

    def _refusal(self, status: int, reason: str) -> UserError:
        """The error of a request that will always be refused."""
        if status == 401:
            return UserError("--push", "a token that the Hub accepts", hint=_LOGIN)
        expected = "a repository that the token may write" if status in (403, 404) else "what the Hub accepts"
        return UserError("--push", expected, self.name, hint=reason)
