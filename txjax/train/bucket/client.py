"""The five requests to an object store: get, put, put if absent, list, delete. Each has a limit of time and tries."""

import re
from collections.abc import Sequence

from txjax.errors import UserError
from txjax.io.store_client import StoreClient

SCHEMES = ("s3", "gs")


def check_url(field: str, url: str) -> None:
    """Raises UserError unless a URL names a folder of a bucket: `s3://BUCKET/FOLDER`, `gs://BUCKET/FOLDER`."""
    pattern = rf"({'|'.join(SCHEMES)})://[^/]+(/[A-Za-z0-9_.=,@+-]+)+/?"
    if not re.fullmatch(pattern, url) or {".", ".."} & set(url.split("/")):
        expected = "s3://BUCKET/FOLDER or gs://BUCKET/FOLDER, of letters, digits and _ . = , @ + -"
        raise UserError(field, expected, url)


class Bucket(StoreClient):
    """A folder of a bucket. All methods raise what `repeat` raises."""

    def __init__(self, field: str, url: str):
        """Sends no request.

        Args:
          field: the flag that has the URL, for messages.

        Raises:
          UserError: it is no URL of a folder of a bucket, or the package obstore is not installed.
        """
        check_url(field, url)
        super().__init__(field, url, "a bucket that can be read and written")

    def read(self, key: str) -> bytes | None:
        """The content of an object; None if there is none."""
        return self.repeat(key, lambda: bytes(self.store.get(key).bytes()), absent=None)

    def write(self, key: str, content: bytes) -> None:
        """Creates or replaces an object."""
        self.repeat(key, lambda: self.store.put(key, content, use_multipart=False))

    def create(self, key: str, content: bytes) -> bool:
        """Creates an object, complete at once. Returns False if there is one of other content.

        A try whose answer is lost may have created it: the next one finds the content, which no other writer has.
        """
        return self.repeat(key, lambda: self._create(key, content))

    def _create(self, key: str, content: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        try:
            self.store.put(key, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            known = self.read(key)
            if known is None:  # two creations at once, of which the store has refused both
                raise
            return known == content
        return True

    def names(self, folder: str) -> list[str]:
        """The names of all objects of a folder, sorted."""
        pages = self.repeat(folder, lambda: list(self.store.list(f"{folder}/")))
        return sorted(entry["path"].removeprefix(f"{folder}/") for page in pages for entry in page)

    def remove(self, keys: Sequence[str]) -> None:
        """Removes objects; those that are not there count as removed."""
        if keys:
            self.repeat(keys[0], lambda: self.store.delete(list(keys)), absent=None)
