"""Workdirs in a bucket of an object store: a run works in a folder, which is mirrored there (docs/reliability.md)."""

from txjax.train.bucket.remote_workdir import cached_copy as cached_copy
from txjax.train.bucket.remote_workdir import check_new_workdir as check_new_workdir
from txjax.train.bucket.remote_workdir import fetch_workdir as fetch_workdir
from txjax.train.bucket.remote_workdir import folder_of as folder_of
from txjax.train.bucket.remote_workdir import open_workdir as open_workdir
