"""The protocol of a workdir in a bucket: one owner, entries that count whole or not at all, digests, limits."""

import os
import threading
import time

import pytest

from txjax.checkpoint.steps import Checkpoints, Steps
from txjax.errors import RunError, UserError
from txjax.io import digest, store_client
from txjax.train.bucket import commits, lease, mirror, transfer
from txjax.train.bucket.client import Bucket
from txjax.train.bucket.commits import Entry, Piece
from txjax.train.bucket.lease import Lease, Overtaken

obstore = pytest.importorskip("obstore", reason="it needs the extra stores")
URL = "s3://runs/first"


@pytest.fixture
def store():
    from obstore.store import MemoryStore

    return MemoryStore()


@pytest.fixture
def bucket(store):
    return bucket_of(store)


def bucket_of(store):
    bucket = Bucket("--workdir", URL)
    bucket.store = store
    return bucket


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(lease, "DEAD_SECONDS", 0.5)
    monkeypatch.setattr(store_client, "LIMIT_SECONDS", 1.0)
    monkeypatch.setattr(store_client, "PAUSE_SECONDS", 0.05)


def dead(bucket, place=None, files=None):
    """Entries of a run that was killed."""
    number, _ = commits.newest(bucket)
    entry = Entry(number + 1, number + 1, False, "process 1 on elsewhere", place, files or {})
    assert commits.append(bucket, entry)
    return entry


class Faults:
    """A store whose requests fail: `answers` are the errors, or other contents, of the next ones of a kind."""

    def __init__(self, store, **answers):
        self.store = store
        self.answers = answers

    def __getattr__(self, kind):
        def request(*arguments, **options):
            queue = self.answers.get(kind, [])
            answer = queue.pop(0) if queue else None
            if answer is None:
                return getattr(self.store, kind)(*arguments, **options)
            return answer(lambda: getattr(self.store, kind)(*arguments, **options))

        return request


def status(code):
    def fail(request):
        raise obstore.exceptions.GenericError(
            f"Server returned non-2xx status code: {code} Reason: <Code>Reason</Code>"
        )

    return fail


def lost(request):
    """The request is done, its answer is lost."""
    request()
    raise obstore.exceptions.GenericError("connection closed before message completed")


def flipped(request):
    class Content:
        content = bytearray(bytes(request().bytes()))

        def bytes(self):
            self.content[len(self.content) // 2] ^= 1
            return self.content

    return Content()


# One owner


@pytest.mark.claim("Object stores", "one of many runs that begin at once takes a workdir")
def test_one_of_eight_takes_a_workdir(store):
    for _ in range(25):
        winners, losers = [], []
        start = threading.Barrier(8)

        def take(start=start, winners=winners, losers=losers):
            start.wait()
            try:
                winners.append(Lease(bucket_of(store), None))
            except UserError as error:
                losers.append(str(error))

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == 1 and len(losers) == 7
        assert all("expected a folder that no other run is using, got 's3://runs/first'" in line for line in losers)
        winners[0].stop()
        winners[0].end()


def test_a_live_run_keeps_its_workdir(bucket, store):
    first = Lease(bucket, "here")
    with pytest.raises(UserError, match="process .* is in it; wait, or take another"):
        Lease(bucket_of(store), "elsewhere")
    first.stop()
    first.end()
    second = Lease(bucket_of(store), "elsewhere")
    assert second.owner == 3
    second.stop()


def test_a_dead_run_is_succeeded_after_its_silence_and_at_once_in_its_own_place(bucket):
    dead(bucket, "here")
    begun = time.monotonic()
    second = Lease(bucket, "here")
    assert time.monotonic() - begun < 0.4 and second.owner == 2
    second.stop()
    begun = time.monotonic()
    third = Lease(bucket, "elsewhere")
    assert time.monotonic() - begun >= 0.5 and third.owner == 3
    third.stop()


@pytest.mark.claim("Object stores", "a run that was thought dead can't commit, and leaves")
def test_a_run_that_was_thought_dead_cannot_commit(bucket, store, tmp_path):
    left = []
    first = Lease(bucket, None, lambda code, message: left.append(message))
    (tmp_path / "a").write_text("a")
    first.commit(first.entry.after(transfer.upload(bucket, 2, {"a": tmp_path / "a"}, {})))
    first.stop()  # it is frozen: no heartbeat
    second = Lease(bucket_of(store), None)
    pieces = transfer.upload(bucket, 3, {"b": tmp_path / "a"}, {})
    with pytest.raises(Overtaken, match="has taken the workdir: this run leaves it"):
        first.commit(first.entry.after(pieces))
    second.commit(second.entry.after(second.entry.files))
    assert commits.newest(bucket)[1].files == second.entry.files  # and nothing of it was removed
    assert bucket.read(second.entry.files["a"][0].key) == b"a"
    second.remove_leftovers()
    assert f"files/{second.entry.files['a'][0].key.split('/', 1)[1]}" == second.entry.files["a"][0].key
    assert bucket.names("files") == ["00000002/000000"]  # what it had uploaded is removed
    first._ending.clear()
    beats = threading.Thread(target=first._beat)
    beats.start()
    while not left:
        time.sleep(0.01)
    assert "has taken the workdir" in left[0]
    first._ending.set()
    beats.join()
    second.stop()


# Entries


def test_an_answer_that_is_lost_is_no_conflict(store):
    bucket = bucket_of(Faults(store, put=[lost, None, status(503), lost]))
    owner = Lease(bucket, None)
    owner.stop()
    owner.commit(owner.entry.after())
    owner.commit(owner.entry.after())
    assert commits.newest(bucket)[0] == 3


def test_a_damaged_entry_costs_one_interval(bucket, caplog):
    dead(bucket, files={"a": [Piece("files/1/1", 1, "x")]})
    newest = dead(bucket, "here")
    content = bytearray(newest.to_bytes())
    content[10] ^= 1
    bucket.write("log/00000002", bytes(content))
    number, entry = commits.newest(bucket)
    assert number == 2 and entry.number == 1 and "log/00000002 is damaged" in caplog.text
    third = Lease(bucket, "here")
    assert third.entry.number == 3 and third.entry.files == entry.files
    third.stop()
    bucket.write("log/00000001", b"")
    bucket.write("log/00000003", b"")
    with pytest.raises(RunError, match="all entries are damaged"):
        commits.newest(bucket)


def test_an_entry_names_no_file_outside_of_its_folder(bucket):
    for name in ("../a", "/a", "a/../../b", "", "a//b", "./a"):
        entry = Entry(1, 1, False, "", None, {name: []})
        assert Entry.from_bytes(entry.to_bytes()) is None, name
    text = b'{"number": 1}'
    assert Entry.from_bytes(text + b"\n" + commits.digest_of(text).encode() + b"\n") is None
    good = Entry(1, 1, False, "", None, {"a/b": [Piece("files/1/1", 1, "x")]})
    assert Entry.from_bytes(good.to_bytes()) == good


def test_a_bit_flipped_on_the_way_is_read_again(store, bucket, tmp_path):
    entry = dead(bucket)
    flaky = bucket_of(Faults(store, get=[flipped, flipped]))
    assert commits.read(flaky, 1) == entry
    (tmp_path / "a").write_text("content")
    files = transfer.upload(bucket, 2, {"a": tmp_path / "a"}, {})
    flaky = bucket_of(Faults(store, get=[flipped, status(500), flipped]))
    assert transfer.download(flaky, files, tmp_path / "to") == []
    assert (tmp_path / "to" / "a").read_text() == "content"


@pytest.mark.claim("Object stores", "a bit that was changed in a bucket is found")
def test_a_flipped_bit_in_any_piece_is_found(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "MOST_BYTES", 4)
    (tmp_path / "a").write_text("abcdefghij")
    files = transfer.upload(bucket, 2, {"a": tmp_path / "a"}, {})
    assert [piece.size for piece in files["a"]] == [4, 4, 2]
    for piece in files["a"]:
        content = bucket.read(piece.key)
        bucket.write(piece.key, bytes([content[0] ^ 1]) + content[1:])
        assert transfer.download(bucket, files, tmp_path / piece.digest) == ["a"]
        bucket.remove([piece.key])
        assert transfer.download(bucket, files, tmp_path / piece.digest) == ["a"]
        bucket.write(piece.key, content)
        assert transfer.download(bucket, files, tmp_path / piece.digest) == []


def test_a_growing_file_uploads_its_new_bytes(bucket, tmp_path):
    """100 equal parts: each byte is uploaded log2(100) times at most, and not 50 times."""
    path = tmp_path / "metrics.jsonl"
    files = {}
    uploaded = 0
    for number in range(100):
        with path.open("a") as file:
            file.write(f"{number:09d}\n")
        before = {piece.key for piece in files.get("metrics.jsonl", [])}
        files = transfer.upload(bucket, number + 1, {"metrics.jsonl": path}, files)
        uploaded += sum(piece.size for piece in files["metrics.jsonl"] if piece.key not in before)
        assert len(files["metrics.jsonl"]) <= 7
    assert uploaded <= 7 * path.stat().st_size
    transfer.download(bucket, files, tmp_path / "to")
    assert (tmp_path / "to" / "metrics.jsonl").read_bytes() == path.read_bytes()
    path.write_text("other\n")
    assert transfer.upload(bucket, 101, {"metrics.jsonl": path}, files)["metrics.jsonl"][0].size == 6


# Steps


def write_step(folder, number):
    """A complete step of a run's folder."""
    step = folder / "checkpoints" / str(number)
    (step / "arrays").mkdir(parents=True)
    for name in ("arrays/a", "arrays/b", "record.json"):
        (step / name).write_text(f"{name} of {number}")
    digest.commit(step)
    return step


@pytest.mark.parametrize("moment", range(11))
def test_a_step_that_gets_its_scores_while_its_files_are_linked_is_whole(moment, tmp_path, monkeypatch):
    """Before or after each of its files, or after the list of them."""
    step = write_step(tmp_path / "run", 5)
    calls = []

    def interrupt(function):
        def call(*arguments):
            calls.append(arguments)
            if len(calls) == moment:
                digest.add(step, '{"score": 1}')
            result = function(*arguments)
            calls.append(arguments)
            if len(calls) == moment:
                digest.add(step, '{"score": 1}')
            return result

        return call

    monkeypatch.setattr(mirror, "files_of", interrupt(mirror.files_of))
    monkeypatch.setattr(mirror.os, "link", interrupt(os.link))
    paths = mirror.snapshot(tmp_path / "run", tmp_path / "links")
    linked = tmp_path / "links" / "checkpoints" / "5"
    assert digest.faults(linked) == [] and set(transfer.files_of(tmp_path / "links")) == set(paths)
    assert digest.added_text(linked) == ('{"score": 1}' if moment else None)


def test_a_step_that_is_removed_while_its_files_are_linked_is_left_out(tmp_path, monkeypatch):
    for number in (5, 10):
        write_step(tmp_path / "run", number)
    link, calls = os.link, []

    def remove_and_link(*arguments):
        calls.append(arguments)
        if len(calls) == 5:
            Steps(tmp_path / "run", Checkpoints(keep=1)).forget_old(10)
        link(*arguments)

    monkeypatch.setattr(mirror.os, "link", remove_and_link)
    paths = mirror.snapshot(tmp_path / "run", tmp_path / "links")
    assert {mirror.step_folder(name) for name in paths} == {"checkpoints/10"}
    assert digest.faults(tmp_path / "links" / "checkpoints" / "10") == []


def test_a_step_that_was_damaged_before_it_was_uploaded_costs_one_interval(bucket, tmp_path):
    """The arrays of the step before are fetched, though all objects are as they were uploaded."""
    for number in (5, 10, 15):
        write_step(tmp_path / "run", number)
    (tmp_path / "run/checkpoints/15/record.json").write_text("other")
    (tmp_path / "run/checkpoints/15/arrays/b").unlink()
    owner = Lease(bucket, None)
    owner.stop()
    owner.commit(owner.entry.after(transfer.upload(bucket, 2, transfer.files_of(tmp_path / "run"), {})))
    (tmp_path / "to/checkpoints/10/arrays").mkdir(parents=True)
    (tmp_path / "to/checkpoints/10/arrays/left").write_text("by a save that was killed")
    absent = mirror.fetch(owner, tmp_path / "to")
    assert absent == {"checkpoints/5/arrays/a", "checkpoints/5/arrays/b"}
    assert Steps(tmp_path / "to").choose() == 10


# Requests


def test_what_no_repetition_changes_is_one_line_at_once(store):
    for code in (400, 401, 403, 404):
        requests = [status(code), status(code)]
        begun = time.monotonic()
        with pytest.raises(UserError, match=rf"a bucket that can be read and written.*its answer is {code}, Reason"):
            bucket_of(Faults(store, put=requests)).write("a", b"")
        assert len(requests) == 1 and time.monotonic() - begun < 0.5


def test_other_failures_are_repeated_until_the_limit(store):
    for code in (408, 429, 500, 502, 503):
        requests = [status(code)] * 3
        bucket_of(Faults(store, put=requests)).write("a", b"1")
        assert not requests
    begun = time.monotonic()
    with pytest.raises(RunError, match=r"s3://runs/first/a cannot be reached: its answer is 500, Reason; \d+ tries"):
        bucket_of(Faults(store, get=[status(500)] * 1000)).read("a")
    assert 0.5 < time.monotonic() - begun < 5


def test_no_file_is_sent_after_one_has_failed(store, tmp_path):
    """Each would wait its own limit, while the run waits for all."""
    keys = []

    class Refusing:
        def put(self, key, *arguments, **options):
            keys.append(key)
            if key.endswith("000000"):
                time.sleep(0.5)  # the others fail before
            status(403)(None)

    for number in range(50):
        (tmp_path / f"{number}").write_text("a")
    with pytest.raises(UserError, match=r"a bucket that can be read and written.*its answer is 403"):
        transfer.upload(bucket_of(Refusing()), 1, {path.name: path for path in tmp_path.iterdir()}, {})
    assert len(keys) <= transfer.REQUESTS


def test_urls_that_name_no_folder_of_a_bucket():
    for url in ("s3://runs", "s3://runs/", "s3:///a", "ftp://runs/a", "s3://runs/../a", "s3://runs/a b"):
        with pytest.raises(UserError, match="s3://BUCKET/FOLDER or gs://BUCKET/FOLDER"):
            Bucket("--workdir", url)


def test_a_damaged_heartbeat_is_none() -> None:
    content = lease.beat_text(12)
    assert lease.parse_beat(content) == 12 and lease.parse_beat(None) == 0
    for place in range(len(content)):
        for bit in range(8):
            damaged = bytes(x ^ (1 << bit) if i == place else x for i, x in enumerate(content))
            assert lease.parse_beat(damaged) is None
    assert lease.parse_beat(content[:-1]) is None and lease.parse_beat(b"") is None
