"""Files of buckets and of web servers: the same rows as on a disk, few bytes, one line for what is wrong."""

import hashlib
import json
import os
import shutil
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.data import (
    ArrowFiles,
    ConversationFiles,
    Conversations,
    ImageFolder,
    Images,
    JSONArrays,
    JSONLines,
    NextTokenWindows,
    ParquetFiles,
    WebDataset,
    train_batches,
)
from txjax.data.file_changes import describe_changes_since, file_digests
from txjax.data.sources import file_source, remote_files
from txjax.data.sources.media_folders import MediaFolder
from txjax.data.sources.source_of import source_at
from txjax.data.tfds.records import ChangedData, CorruptData
from txjax.errors import RunError, UserError
from txjax.io import block_cache, store_client
from txjax.io.block_cache import BlockCache

from helpers import gcs_server, object_stores, runs
from helpers.file_kinds import WRITERS, compress, data_of, kinds, rows, source_of, write_image
from helpers.range_server import range_server

pytestmark = pytest.mark.claim(
    "Data", "files of buckets and of web servers: the rows of the same files on a disk, and at most 1.2 times the bytes"
)
pytest.importorskip("obstore", reason="it needs the extra stores")

SPLITS = ("train", "validation", "test")
FOLDERS = (*MediaFolder.__subclasses__(), ConversationFiles)  # whose files are many
SINGLE = [kind for kind in kinds() if kind not in FOLDERS]
every_kind = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
every_folder = pytest.mark.parametrize("kind", FOLDERS, ids=lambda kind: kind.__name__)


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Empty caches, and requests that are repeated for a second."""
    monkeypatch.setenv("TXJAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(store_client, "LIMIT_SECONDS", 1.0)
    monkeypatch.setattr(store_client, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(remote_files, "LIST_SECONDS", 1e-6)
    remote_files.open_store.cache_clear()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def web(folder):
    with range_server(folder) as server:
        yield server


@pytest.fixture(scope="module", params=["s3", pytest.param("gs", marks=pytest.mark.slow)])
def store_server(request):
    """Its keys stay in the environment between tests: threads of the test before may open the store again."""
    with (
        object_stores.moto() if request.param == "s3" else gcs_server.gcs() as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in server.variables.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def bucket(store_server):
    """What copies a folder to a bucket."""
    from obstore.store import from_url

    store = from_url(store_server.url, client_options={"allow_http": True})

    def copy(source: Path, to: str) -> str:
        for path in source.rglob("*"):
            if path.is_file():
                store.put(f"{to}/{path.relative_to(source).as_posix()}", path.read_bytes())
        return f"{store_server.url}/{to}"

    return copy


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def delete(url: str, key: str) -> None:
    from obstore.store import from_url

    from_url(url, client_options={"allow_http": True}).delete(key)


def remote(kind, url, **fields):
    return kind(url, **WRITERS[kind][2], **fields)


def in_bucket(kind, url, **fields):
    """The source of what `source_of` wrote into a folder that was copied there."""
    return remote(kind, f"{url}/{'rows' if issubclass(kind, MediaFolder) else '*' + WRITERS[kind][1]}", **fields)


def read(source, names=("text",)):
    records = [source.open(split, names) for split in source.table().splits]
    return [part.read(0, len(part)) for part in records], [part.fingerprint for part in records]


def all_columns(source):
    """All rows, by the columns that they have."""
    return read(source, tuple(source.features()))


# The same rows


@every_kind
def test_files_of_a_bucket_have_the_rows_splits_and_fingerprints_of_files_on_a_disk(kind, folder, bucket):
    if not issubclass(kind, MediaFolder):
        source_of(kind, folder, rows(20, 40), name="b c")
    local = source_of(kind, folder, rows(40))
    url = bucket(folder, kind.__name__)
    source = in_bucket(kind, url)
    assert all_columns(source)[1] == all_columns(local)[1]
    assert repr(all_columns(source)) == repr(all_columns(local))  # of arrays, too
    place = source.open("train", ["text"]).place(0)
    assert place.startswith(f"{url}/") and Path(place.replace(url, str(folder)).split(": ")[0]).is_file()


@pytest.mark.parametrize("kind", SINGLE, ids=lambda kind: kind.__name__)
def test_a_file_of_a_web_server_too(kind, folder, web):
    local = source_of(kind, folder, rows(), name="b c")
    web.etags = kind is JSONLines
    assert read(remote(kind, f"{web.url}/b%20c{WRITERS[kind][1]}")) == read(local)


def test_compressed_files_are_unpacked_once(folder, web):
    local = source_of(WebDataset, folder, rows())
    wanted = read(local)
    packed = compress(folder / "rows.tar")
    assert read(WebDataset(f"{web.url}/{packed.name}")) == wanted


LISTED = "file_name,text\na/1.png,one\na/2.png,two\nb/3.png,three\n"
COCO = {
    "images": [{"id": n, "file_name": f"{n}.png", "width": 4, "height": 4} for n in (1, 2)],
    "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 1, 2, 3]}],
    "categories": [{"id": 1, "name": "dog"}],
}
LAYOUTS = {
    "classes": {},
    "a table": {"metadata.csv": LISTED},
    "a list of a split": {"train.csv": LISTED.replace("file_name", "path").replace("b/3.png,three\n", "")},
    "COCO's": {"instances_train.json": json.dumps(COCO)},
    "whole paths": {
        "train_manifest.json": "".join(f'{{"image": "FOLDER/a/{n}.png", "said": "{n}"}}\n' for n in (1, 2))
    },
}


@pytest.mark.parametrize("lists", LAYOUTS.values(), ids=LAYOUTS)
def test_a_folder_in_a_bucket_is_laid_out_as_on_a_disk(lists, folder, bucket):
    for name in ("a/1.png", "a/2.png", "b/3.png", ".c/4.png"):
        write_image(folder / name, {"text": f"film {name[-5]}"})
    for name, content in lists.items():
        (folder / name).write_text(content.replace("FOLDER", str(folder)))
    local = all_columns(source_at(str(folder)))
    url = bucket(folder, folder.parent.name)
    for name, content in lists.items():
        (folder / name).write_text(content.replace("FOLDER", url))
    bucket(folder, folder.parent.name)
    source = source_at(f"{url}/")
    assert isinstance(source, ImageFolder) and repr(all_columns(source)) == repr(local)


def test_conversations_and_their_images_in_another_folder(folder, bucket):
    source_of(ConversationFiles, folder, rows(9), held_out=0.0)
    (folder / "lists").mkdir()
    (folder / "rows.json").rename(folder / "lists/rows.json")
    fields = dict(length=256, image_tokens=1, shape=(4, 4, 3))
    local = Conversations(source=ConversationFiles(f"{folder}/lists/*.json", images=str(folder)), **fields)
    url = bucket(folder, "talks")
    opened = Conversations(source=ConversationFiles(f"{url}/lists/*.json", images=url), **fields).open()
    assert opened.fingerprint == local.open().fingerprint
    with pytest.raises(UserError, match="lists/rows.json: entry 1: photos/0.png: the file is missing or empty"):
        Conversations(source=f"{url}/lists", **fields).open()


def test_patterns_match_paths_in_a_bucket_as_on_a_disk(folder, bucket):
    for name in ("a.txt", ".b.txt", "c/d.txt", "c/.e/f.txt", "c/g/h.txt", "i.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a\n")
    url = bucket(folder, "patterns")
    for pattern in ("*.txt", "**/*.txt", "c/**/*.txt", "*/*", "**", "?.t[x]t", "c/[!g]*"):
        names = remote_files.find_remote_files(f"{url}/{pattern}", "data.source")
        expected = [path for path in folder.glob(pattern) if path.is_file()]
        visible = {path for path in expected if "/." not in str(path.relative_to(folder.parent))}
        if pattern == "**":  # of which pathlib gives folders alone
            visible = {folder / name for name in ("a.txt", "c/d.txt", "c/g/h.txt", "i.md")}
        assert {name.path.removeprefix(url) for name in names} == {str(path)[len(str(folder)) :] for path in visible}


# Few bytes


def epoch(data) -> Counter:
    """How often each example of a data set is in the batches of an epoch."""
    opened = data.open()
    steps = len(opened) // 4
    batches = train_batches(opened, batch_size=4, seed=0, threads=2)
    counts = Counter(int(id) for _ in range(steps) for id in np.asarray(next(batches)["id"]))
    batches.close()
    return counts


def count_bytes(monkeypatch) -> list[int]:
    """The bytes of each answer that has some."""
    sizes = []
    get = remote_files.RemoteStore.get

    def counted(store, key, start, end):
        answer = get(store, key, start, end)
        sizes.append(len(answer[1]))
        return answer

    monkeypatch.setattr(remote_files.RemoteStore, "get", counted)
    return sizes


@pytest.mark.parametrize("kind", [JSONLines, WebDataset], ids=lambda kind: kind.__name__)
def test_an_epoch_in_random_order_fetches_each_byte_once(kind, folder, web, monkeypatch):
    """Bytes that the index needs included; the next run fetches none."""
    monkeypatch.setattr(block_cache, "BLOCK", 10_000)
    source_of(kind, folder, rows(100))
    name = f"rows{WRITERS[kind][1]}"
    data = data_of(remote(kind, f"{web.url}/{name}"))
    assert epoch(data).most_common(1)[0][1] == 1
    assert web.counts["bytes"] <= 1.2 * (folder / name).stat().st_size
    before = web.counts["bytes"]
    assert epoch(data_of(remote(kind, f"{web.url}/{name}", corrupt="skip")))
    assert web.counts["bytes"] == before


@every_folder
def test_a_folder_is_listed_at_once_and_each_file_fetched_whole_in_one_request(kind, folder, bucket, monkeypatch):
    source_of(kind, folder, rows(40))
    files = [path for path in folder.rglob("*") if path.is_file()]
    url = bucket(folder, f"once/{kind.__name__}")
    monkeypatch.setattr(remote_files, "LIST_SECONDS", 1e9)
    fetched = count_bytes(monkeypatch)
    requests = []
    repeat = remote_files.RemoteStore.repeat
    count = lambda store, key, *words, **more: (requests.append(key), repeat(store, key, *words, **more))[1]  # noqa: E731
    monkeypatch.setattr(remote_files.RemoteStore, "repeat", count)
    assert epoch(data_of(in_bucket(kind, url))).most_common(1)[0][1] == 1
    assert len(fetched) == len(files) and len(requests) == len(files) + 1 + (kind is ConversationFiles)
    assert sum(fetched) <= 1.2 * sum(path.stat().st_size for path in files)
    assert epoch(data_of(in_bucket(kind, url, corrupt="skip"))) and len(fetched) == len(files)


def test_files_of_a_folder_are_fetched_side_by_side(folder, bucket, monkeypatch):
    for number in range(8):
        write_image(folder / "a" / f"{number}.png", {"text": f"film {number}"})
    url = bucket(folder, "together")
    barrier = threading.Barrier(4)
    get = remote_files.RemoteStore.get
    first = iter(range(4))
    wait = lambda *words: (next(first, None) is not None and barrier.wait(timeout=60), get(*words))[1]  # noqa: E731
    monkeypatch.setattr(remote_files.RemoteStore, "get", wait)
    assert len(ImageFolder(url, held_out=0.0).open("train", ["image"])) == 8


def test_a_full_cache_fetches_no_more_than_what_is_read(folder, web, monkeypatch, caplog):
    monkeypatch.setattr(block_cache, "BLOCK", 1000)
    monkeypatch.setenv(remote_files.LIMIT_VARIABLE, "0.000005")
    source_of(JSONLines, folder, rows(200))
    size = (folder / "rows.jsonl").stat().st_size
    records = JSONLines(f"{web.url}/rows.jsonl").open("train", ["text"])
    indexed = web.counts["bytes"]
    assert indexed <= 3 * size  # for the index, the hashes of rows, and the columns by the first 1,000 rows
    order = np.random.default_rng(0).permutation(len(records))
    assert len({records[int(index)]["text"] for index in order}) == len(records)
    assert 0.3 * size < web.counts["bytes"] - indexed <= size
    assert sum(path.stat().st_size for path in (folder.parent / "cache/blocks").rglob("*") if path.is_file()) <= 5000
    assert (
        "is full, with 5e-06 GB in use: what is not there is fetched whenever it is read; TXJAX_REMOTE" in caplog.text
    )


def test_blocks_that_are_not_used_leave_the_least_recently_used_first(tmp_path, monkeypatch):
    monkeypatch.setattr(block_cache, "BLOCK", 10)
    monkeypatch.setattr(block_cache, "SHARE", 1)
    fetched = []

    def fetch(start, end):
        fetched.append((start, end))
        return bytes(range(start, end))

    cache = BlockCache(tmp_path, 60, "")
    assert cache.read("a", 65, 8, 32, fetch) == bytes(range(8, 32)) and len(fetched) == 4
    assert cache.read("a", 65, 39, 65, fetch) == bytes(range(39, 65)) and len(fetched) == 7
    blocks = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(blocks) == 6 and fetched[-1] == (60, 65)  # there was no room for the last one
    for age, name in enumerate(blocks):
        os.utime(tmp_path / "a" / name, (1e9 + age, 1e9 + age))
    later = BlockCache(tmp_path, 60, "")
    assert later.read("a", 65, 0, 5, fetch) == bytes(range(5)) and len(fetched) == 7
    assert later.read("b", 20, 0, 20, fetch) == bytes(range(20)) and fetched[7:] == [(0, 10), (10, 20)]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [blocks[0], *blocks[3:]]


def test_a_block_that_is_cut_is_fetched_again(folder, web):
    source_of(JSONLines, folder, rows())
    records = JSONLines(f"{web.url}/rows.jsonl").open("train", ["text"])
    before = records.read(0, len(records))
    (block,) = (path for path in (folder.parent / "cache/blocks").rglob("*") if path.is_file())
    block.write_bytes(block.read_bytes()[:100])
    assert records.read(0, len(records)) == before


def test_checks_before_a_run_share_one_look_for_the_files(folder, web, monkeypatch):
    monkeypatch.setattr(remote_files, "LIST_SECONDS", 1e9)
    source_of(JSONLines, folder, rows())
    source = JSONLines(f"{web.url}/rows.jsonl")
    for _ in range(3):
        source.check("train")
    assert web.counts["requests"] == 2  # its state, and its bytes


# Changes and faults


def changed_files(path: Path):
    """Ways to change a file, and what is said of it."""
    yield lambda: path.write_text(path.read_text() + "\n"), r"\(\d+ bytes, now \d+\); start again to index it anew"
    yield lambda: path.write_text("x" + path.read_text()[1:]), r"\(another version\); start again"
    yield lambda: path.write_text(""), r"\(\d+ bytes, now 0\); start again"


@pytest.mark.parametrize(("number", "etags"), [(0, True), (1, True), (1, False), (2, False)])
def test_a_file_that_changes_is_noticed_when_bytes_of_it_are_fetched(number, etags, folder, web):
    web.etags = etags
    source_of(JSONLines, folder, rows())
    path = folder / "rows.jsonl"
    os.utime(path, (0, 0))
    records = JSONLines(f"{web.url}/rows.jsonl").open("train", ["text"])
    before = records.read(0, len(records))
    change, message = list(changed_files(path))[number]
    change()
    assert records.read(0, len(records)) == before  # from the blocks, which are of the version before
    shutil.rmtree(folder.parent / "cache/blocks")
    with pytest.raises(ChangedData, match=f"^{web.url}/rows.jsonl has changed since the run began {message}"):
        records[len(records) - 1]


def test_a_file_that_is_removed_and_one_that_comes_again(folder, web):
    source_of(JSONLines, folder, rows())
    records = JSONLines(f"{web.url}/rows.jsonl").open("train", ["text"])
    path = (folder / "rows.jsonl").rename(folder / "away")
    shutil.rmtree(folder.parent / "cache/blocks")
    with pytest.raises(CorruptData, match=f"^{web.url}/rows.jsonl was there when the run began: No such file"):
        records[0]
    path.rename(folder / "rows.jsonl")
    assert records[0]["text"]


@every_folder
def test_an_object_of_a_folder_that_changes_comes_or_goes(kind, folder, bucket, tmp_path):
    """In a run at the next request for it; before a resume, by its name."""
    source_of(kind, folder, rows(40), held_out=0.0)
    (image,) = [path for path in folder.rglob("1.*")]
    url = bucket(folder, f"changes/{kind.__name__}")
    name = f"{url}/{image.relative_to(folder)}"
    records = in_bucket(kind, url, held_out=0.0).open("train", ["text"])
    before = file_digests(data_of(in_bucket(kind, url, held_out=0.0)))
    image.write_bytes(image.read_bytes() + b"more")
    bucket(folder, f"changes/{kind.__name__}")
    shutil.rmtree(tmp_path / "cache/blocks")
    with pytest.raises(ChangedData, match=rf"^{name} has changed since the run began \(\d+ bytes, now \d+\); start"):
        records.read(0, len(records))
    file_source._opened.clear()
    changed = f"{url}/rows.json" if kind is ConversationFiles else name
    assert describe_changes_since(before, data_of(in_bucket(kind, url, held_out=0.0))) == f"{changed} has other rows"
    if kind is not ConversationFiles:
        shutil.copy(image, image.with_stem("new"))
        bucket(folder, f"changes/{kind.__name__}")
        with pytest.raises(UserError, match="expected a line of metadata.jsonl for each file, got 'none for new"):
            in_bucket(kind, url).features()
    delete(url, image.relative_to(folder).as_posix())
    if kind is not ConversationFiles:
        with pytest.raises(UserError, match=f"expected a file that is in {url}/rows, got '.*line 2: {image.name}"):
            in_bucket(kind, url).features()
    with pytest.raises(ChangedData, match=f"^{name} was there when the run began: No such file"):
        records.read(0, len(records))


@pytest.mark.parametrize("fault", ["500", "503", "429", "cut", "stalled"])
def test_a_fault_is_repeated(fault, folder, web, monkeypatch):
    monkeypatch.setattr(store_client, "REQUEST_SECONDS", 0.2)
    local = source_of(JSONLines, folder, rows())
    web.faults = [fault] * 3
    assert read(JSONLines(f"{web.url}/rows.jsonl")) == read(local) and not web.faults


in_place = pytest.mark.parametrize(
    "kind", [kind for kind in SINGLE if not issubclass(kind, ArrowFiles)], ids=lambda kind: kind.__name__
)


@pytest.mark.parametrize("kind", SINGLE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("packed", [False, True])
def test_a_bit_that_is_flipped_on_the_way_is_in_no_index(kind, packed, folder, web):
    """Though no request is encrypted: the ETag is the content's MD5, as S3 has it."""
    local = source_of(kind, folder, rows())
    path = folder / f"rows{WRITERS[kind][1]}"
    if packed and issubclass(kind, ArrowFiles):
        pytest.skip("Arrow and Parquet files are compressed by themselves")
    expected = read(local)
    web.tag = md5
    web.faults = ["flipped"] * 2
    assert read(remote(kind, f"{web.url}/{(compress(path) if packed else path).name}")) == expected
    assert not web.faults


def test_files_of_a_folder_whose_bits_are_flipped_on_the_way(folder, bucket, monkeypatch):
    """As their checksums are taken: a proxy would stand before moto, whose answers are changed here where they come."""
    local = source_of(ImageFolder, folder, rows())
    url = bucket(folder, "flipped")
    if url.startswith("gs:"):
        pytest.skip("the ETags of gs:// are no MD5s; requests to it are encrypted")
    get = remote_files.RemoteStore.get
    flips = iter(range(3))

    def flip(*words):
        meta, content = get(*words)
        place = next(flips, None)
        return meta, content if place is None else content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]

    monkeypatch.setattr(remote_files.RemoteStore, "get", flip)
    assert read(in_bucket(ImageFolder, url), ["image"]) == read(local, ["image"])
    assert next(flips, None) is None


def test_an_etag_that_only_looks_like_an_md5(folder, web):
    """As that of an encrypted object: two fetches that are equal are right."""
    local = source_of(JSONLines, folder, rows())
    web.tag = lambda content: 32 * "a"
    assert read(JSONLines(f"{web.url}/rows.jsonl")) == read(local)


def test_a_file_with_other_bytes_at_each_fetch_is_one_line(folder, web):
    source_of(JSONLines, folder, rows())
    web.tag = md5
    web.faults = ["flipped"] * 4
    with pytest.raises(RunError, match="^http.*/rows.jsonl has other bytes at each of 4 fetches$"):
        JSONLines(f"{web.url}/rows.jsonl").open("train", ["text"])


@in_place
@pytest.mark.parametrize("limit", ["0", "1"])
def test_a_bit_that_is_flipped_on_the_way_is_in_no_row(kind, limit, folder, web, monkeypatch):
    """Whether a block is fetched the first time or again, and kept or not; it is fetched once more."""
    monkeypatch.setenv(remote_files.LIMIT_VARIABLE, limit)
    source_of(kind, folder, rows())
    records = remote(kind, f"{web.url}/rows{WRITERS[kind][1]}").open("train", ["text"])
    expected = records.read(0, len(records))
    for _ in range(2):
        shutil.rmtree(folder.parent / "cache/blocks", ignore_errors=True)
        web.faults = ["flipped"]
        assert records.read(0, len(records)) == expected and not web.faults


@in_place
def test_a_row_that_is_wrong_at_two_fetches_is_an_error_and_stays_nowhere(kind, folder, web, monkeypatch):
    monkeypatch.setenv(remote_files.LIMIT_VARIABLE, "0")
    source_of(kind, folder, rows())
    records = remote(kind, f"{web.url}/rows{WRITERS[kind][1]}").open("train", ["text"])
    expected = records.read(0, len(records))
    web.faults = ["flipped"] * 2
    with pytest.raises(CorruptData, match="rows.*: its bytes have changed since it was indexed"):
        records.read(0, 1)
    assert records.read(0, len(records)) == expected


def test_an_outage_ends_in_one_line(folder, web):
    source_of(JSONLines, folder, rows())
    web.faults = ["500"] * 1000
    message = rf"^{web.url}/rows.jsonl cannot be reached: its answer is 500; \d+ tries$"
    with pytest.raises(RunError, match=message):
        JSONLines(f"{web.url}/rows.jsonl").features()


@pytest.mark.parametrize(
    ("kind", "packed", "fault", "reason"),
    [
        (JSONLines, True, "403", "its answer is 403"),
        (JSONArrays, False, "401", "its answer is 401"),
        (ParquetFiles, False, "403", "its answer is 403"),
        (ArrowFiles, False, "400", "its answer is 400"),
        (WebDataset, False, "403", "its answer is 403"),
        (JSONLines, False, "301", "the bucket is in another region: set AWS_REGION"),
    ],
)
def test_what_no_repetition_changes_is_one_line_at_once(kind, packed, fault, reason, folder, web):
    source_of(kind, folder, rows())
    path = folder / f"rows{WRITERS[kind][1]}"
    path = compress(path) if packed else path
    web.faults = [fault] * 2
    begun = time.monotonic()
    message = rf"^data\.source: expected a file, .* that can be read, got '{web.url}/{path.name}'; {reason}$"
    with pytest.raises(UserError, match=message):
        remote(kind, f"{web.url}/{path.name}").features()
    assert len(web.faults) == 1 and time.monotonic() - begun < 1


def test_mistakes_are_one_line(folder, web, bucket):
    source_of(JSONLines, folder, rows())
    url = bucket(folder, "mistakes")
    nowhere = f"{url.partition(':')[0]}://nowhere"
    web.ranges = False
    missing = "got '.*'; there is none, or no such bucket"
    for path, message in {
        f"{web.url}/none.jsonl": missing,
        f"{url}/none/*.jsonl": missing,
        f"{nowhere}/*.jsonl": "that can be read, got '.*nowhere/'; its answer is 404",
        f"{web.url}/*.jsonl": "without .*, got '.*'; a web server has no lists of its files",
        f"{web.url}/rows.jsonl": "that can be read, got '.*rows.jsonl'; Operation not supported: Range request",
        f"{url}//rows.jsonl": "that can be read, got '.*'; Could not parse path",
        f"{url}/": "a source such as .*, got '.*'; a folder needs a pattern, such as FOLDER/",
    }.items():
        with pytest.raises(UserError, match=rf"^data\.source: expected .*{message}") as error:
            NextTokenWindows(source=path, length=8).check()
        assert "\n" not in str(error.value)
    for source, message in (
        (f"{url}/none", missing),
        (f"{nowhere}/photos", "that can be read, got '.*nowhere/photos'; its answer is 404"),
        (f"{web.url}/photos", "expected a folder on a disk or in a bucket, got '.*'; a web server has no lists of its"),
        (ImageFolder(f"{web.url}/photos"), "expected a folder on a disk or in a bucket, got '.*'; a web server has no"),
        (ImageFolder(url), r"expected a folder with files of .png, .*, got '.*'"),
    ):
        with pytest.raises(UserError, match=rf"^data\.source: .*{message}") as error:
            Images(source=source, shape=(4, 4, 3)).check()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(("faults", "reason"), [(["403"], "its answer is 403"), (["404"], "its answer is 404")])
def test_a_list_that_is_refused_is_one_line_at_once(faults, reason, folder, web, monkeypatch):
    for name, value in (object_stores.KEYS | {"AWS_ENDPOINT_URL": web.url}).items():
        monkeypatch.setenv(name, value)
    web.faults = faults * 2
    message = rf"^data\.source: expected a file, .* that can be read, got 's3://runs/photos'; {reason}$"
    with pytest.raises(UserError, match=message):
        ImageFolder("s3://runs/photos").features()
    assert len(web.faults) == 1


def test_a_limit_that_is_no_number_is_one_line(folder, web, monkeypatch):
    source_of(JSONLines, folder, rows())
    monkeypatch.setenv(remote_files.LIMIT_VARIABLE, "10 GB")
    with pytest.raises(UserError, match="^TXJAX_REMOTE_CACHE_GB: expected a number of GB, got '10 GB'$"):
        JSONLines(f"{web.url}/rows.jsonl").features()


# Runs

CONFIGS = Path(__file__).parents[2] / "configs"
CLASSIFIER = CONFIGS / "text" / "classifier.py"
VIT = CONFIGS / "vision" / "vit_digits.py"
SIZES = ("--config.model.width=8", "--config.model.depth=1", "--config.model.heads=1", "--config.batch_size=4")


@pytest.mark.slow
def test_a_run_that_is_killed_resumes_exactly(folder, web, monkeypatch, capsys):
    """While each row is fetched when it is read, and some requests fail."""
    monkeypatch.setenv(remote_files.LIMIT_VARIABLE, "0")
    source_of(JSONLines, folder, rows(60))
    web.faults = (["500", "cut"] + [""] * 98) * 1000
    flags = [f"--config={CLASSIFIER}", f"--config.data.source={web.url}/rows.jsonl", *SIZES]
    flags += ["--config.data.text=text", "--config.data.label=label", "--config.optimizer.schedule.warmup_steps=0"]
    flags += ["--config.num_steps=8", "--kills=2", "--steps=8", f"--workdir={folder.parent}/trial", "--json"]
    assert main(["chaos", *flags]) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result["exact"] and len(result["interruptions"]) == 2
    assert web.counts["requests"] > 3 * 8 * 4


@pytest.mark.slow
def test_a_run_on_images_of_a_bucket_is_killed_and_resumes_exactly(folder, bucket, monkeypatch, capsys):
    """While each image is fetched when it is read."""
    monkeypatch.setenv(remote_files.LIMIT_VARIABLE, "0")
    source_of(ImageFolder, folder, rows(60))
    url = bucket(folder, "images")
    flags = [f"--config={VIT}", f"--config.data.source={url}/rows", *SIZES[:2], "--config.batch_size=4"]
    flags += ["--config.data.shape=(4, 4, 3)", "--config.data.classes=3"]
    flags += ["--config.optimizer.schedule.warmup_steps=0", "--config.num_steps=8", "--kills=2", "--steps=8"]
    assert main(["chaos", *flags, f"--workdir={folder.parent}/trial", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result["exact"] and len(result["interruptions"]) == 2


@pytest.mark.slow
def test_a_server_that_is_killed_and_restarted_while_rows_are_read(folder, monkeypatch, tmp_path, request):
    """The reader waits, and ends in one line where the server stays away for longer than the limit."""
    if not (request.config.option.full or os.environ.get("TXJAX_FULL")):
        pytest.skip("radosgw takes half a minute to start: --full")
    from obstore.store import from_url

    monkeypatch.setenv(remote_files.LIMIT_VARIABLE, "0")
    source_of(JSONLines, folder, rows())
    with object_stores.radosgw(tmp_path / "server") as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        store = from_url(server.url, client_options={"allow_http": True})
        store.put("lines/rows.jsonl", (folder / "rows.jsonl").read_bytes())
        monkeypatch.setattr(store_client, "LIMIT_SECONDS", 120.0)
        records = JSONLines(f"{server.url}/lines/*.jsonl").open("train", ["text"])
        before = records.read(0, len(records))
        for _ in range(3):
            restart = threading.Thread(target=server.restart, args=(0.5,))
            restart.start()
            while restart.is_alive():
                assert records.read(0, len(records)) == before
            restart.join()
    monkeypatch.setattr(store_client, "LIMIT_SECONDS", 1.0)
    with pytest.raises(RunError, match=rf"^{server.url}/lines/rows.jsonl cannot be reached: .*; \d+ tries$"):
        records[0]


@pytest.mark.slow
def test_a_run_moves_to_a_bucket_and_resumes_but_not_on_changed_files(folder, bucket, tmp_path):
    source_of(JSONLines, folder, rows(100))
    config = tmp_path / "lines.py"
    config.write_text(runs.CONFIG)
    url = bucket(folder, "run")
    flags = ["", "--config.evals={}", "--config.checkpoint.best=None", "--allow_config_change"]
    for source, until in ((folder, 2), (url, 4), (url, 6)):
        flags[0] = f"--config.data.source={source}/*.jsonl"
        code, _, err = runs.train_here(config, tmp_path / "run", *flags, f"--until={until}")
        assert code == 0, err
    source_of(JSONLines, folder, rows(101))
    bucket(folder, "run")
    code, _, err = runs.train_here(config, tmp_path / "run", *flags, "--until=8")
    assert code == 2 and len(err.strip().splitlines()) == 1, err
    assert f"{url}/rows.jsonl had 100 rows and has 101; take another --workdir" in err
