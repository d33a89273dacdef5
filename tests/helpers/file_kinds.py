"""Writes the same rows as files of every kind that a source reads."""

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import zstandard
from PIL import Image

from txjax.data import (
    ArrowFiles,
    AudioFolder,
    ConversationFiles,
    Conversations,
    Dataset,
    FileSource,
    ImageFolder,
    Images,
    JSONArrays,
    JSONLines,
    LabelledAudio,
    LabelledText,
    NextTokenWindows,
    ParquetFiles,
    PythonRows,
    Tables,
    TextFiles,
    WebDataset,
)
from txjax.data.sources.media_folders import MediaFolder
from txjax.data.sources.record_source import RecordSource

from helpers import audio_set

Row = dict[str, Any]
CLASSES = ("bad", "good", "plain")
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstandard.compress}


def rows(count: int = 60, first: int = 0) -> list[Row]:
    """Rows of a text, a class and a number."""
    return [
        {"text": f"film {number} was {CLASSES[number % 3]}", "label": CLASSES[number % 3], "score": number / 4}
        for number in range(first, first + count)
    ]


def write_json_lines(path: Path, content: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in content))


def write_table(path: Path, content: list[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(content[0])
        writer.writerows(row.values() for row in content)


def write_texts(path: Path, content: list[Row]) -> None:
    path.write_text("".join(row["text"] + "\n" for row in content))


def write_parquet(path: Path, content: list[Row]) -> None:
    pa.parquet.write_table(pa.Table.from_pylist(content), path, row_group_size=7)


def write_arrow(path: Path, content: list[Row]) -> None:
    table = pa.Table.from_pylist(content)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, 7)


def write_json_array(path: Path, content: list[Row]) -> None:
    path.write_text(json.dumps(content, indent=1))


def write_conversations(path: Path, content: list[Row]) -> None:
    """Conversations about images in a folder beside the file."""
    messages = [{"from": "human", "value": "<image>\nHow?"}, {"from": "gpt", "value": "So."}]
    entries = []
    for row in content:
        name = f"photos/{row['text'].split()[1]}.png"
        write_image(path.parent / name, row)
        entries.append({"image": name, "conversations": messages} | row)
    write_json_array(path, entries)


def write_image(path: Path, row: Row) -> None:
    pixels = np.random.default_rng(int(row["text"].split()[1])).integers(256, size=(4, 4, 3), dtype=np.uint8)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(path)


def write_images(path: Path, content: list[Row]) -> None:
    lines = []
    for number, row in enumerate(content):
        write_image(path / f"{number}.png", row)
        lines.append(json.dumps({"file_name": f"{number}.png"} | row))
    (path / "metadata.jsonl").write_text("\n".join(lines))


def write_recordings(path: Path, content: list[Row]) -> None:
    numbers = [int(row["text"].split()[1]) for row in content]
    files = {f"{n}.wav": audio_set.file(audio_set.noise(240, number)) for n, number in enumerate(numbers)}
    audio_set.write_folder(path, files, {"metadata": [{"audio": f"{n}.wav"} | row for n, row in enumerate(content)]})


def write_members(path: Path, records: list[dict[str, bytes]]) -> None:
    """A tar file of records of members by their endings."""
    with tarfile.open(path, "w") as archive:
        for number, members in enumerate(records):
            for ending, content in members.items():
                member = tarfile.TarInfo(f"{path.stem}/{number:05}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def members_of(row: Row) -> dict[str, bytes]:
    """The members of a record of a tar file."""
    return {
        "txt": row["text"].encode(),
        "json": json.dumps({"label": row["label"], "score": row["score"]}).encode(),
    }


def write_tar(path: Path, content: list[Row]) -> None:
    write_members(path, [members_of(row) for row in content])


# What writes files of a kind, the ending of their names, and what reads them.
WRITERS: dict[type[FileSource], tuple[Callable[[Path, list[Row]], None], str, dict[str, Any]]] = {
    ConversationFiles: (write_conversations, ".json", {}),
    JSONArrays: (write_json_array, ".json", {}),
    JSONLines: (write_json_lines, ".jsonl", {}),
    Tables: (write_table, ".csv", {}),
    TextFiles: (write_texts, ".txt", {"block": 1}),
    ParquetFiles: (write_parquet, ".parquet", {}),
    ArrowFiles: (write_arrow, ".arrow", {}),
    ImageFolder: (write_images, "", {}),
    AudioFolder: (write_recordings, "", {}),
    WebDataset: (write_tar, ".tar", {}),
}


class Films(PythonRows):
    """A source of one's own."""

    def rows(self) -> list[Row]:
        return rows()


def kinds() -> list[type[FileSource]]:
    """All sources of files, each with a way to write them."""

    def below(kind: type[FileSource]) -> list[type[FileSource]]:
        return [kind, *(inner for sub in kind.__subclasses__() for inner in below(sub))]

    found = [kind for kind in below(FileSource) if kind.__module__.startswith("txjax.")]
    return [kind for kind in found if kind not in (FileSource, MediaFolder) and not issubclass(kind, PythonRows)]


def source_of(
    kind: type[FileSource], folder: Path, content: list[Row], name: str = "rows", **fields: Any
) -> FileSource:
    """A source of files of a kind in a folder, after writing one."""
    write, ending, settings = WRITERS[kind]
    write(folder / f"{name}{ending}", content)
    paths = str(folder / (f"*{ending}" if ending else name))
    return kind(paths, **settings, **fields)


def data_of(source: RecordSource) -> Dataset:
    """A data set that reads what the records of a source are: images, recordings, texts with a class, or texts."""
    features = source.features(("label",))
    if "conversations" in features:
        return Conversations(source=source, image_tokens=1, length=256, shape=(4, 4, 3))
    if "image" in features:
        return Images(source=source, shape=(4, 4, 3))
    if "audio" in features:
        return LabelledAudio(source=source, rate=8000, samples=256)
    if "label" in features:
        return LabelledText(source=source, text=("text",), label="label", length=32)
    return NextTokenWindows(source=source, length=16)


def compress(path: Path, ending: str = ".gz") -> Path:
    """The file as `.gz` or `.zst`, in its place."""
    packed = path.with_name(path.name + ending)
    packed.write_bytes(COMPRESSORS[ending](path.read_bytes()))
    path.unlink()
    return packed
