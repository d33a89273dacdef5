"""`txjax data inspect`: what it counts in files."""

import json

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from txjax.__main__ import main
from txjax.data import AudioFolder, ImageFolder, Tables

from helpers.file_kinds import kinds, rows, source_of, write_json_lines

pytestmark = pytest.mark.claim("Data", "a look at files counts rows, values, broken rows and duplicates")


def inspect(capsys, *words):
    capsys.readouterr()
    assert main(["data", "inspect", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_each_kind_of_files_is_counted(kind, tmp_path, capsys):
    source = source_of(kind, tmp_path, rows(4000 if kind.__name__ == "TextFiles" else 60))
    found = inspect(capsys, str(source.paths))
    assert found["rows"] == sum(found["splits"].values()) and found["broken"] == found["duplicates"] == 0
    columns = {column["name"]: column for column in found["columns"]}
    if kind.__name__ != "TextFiles":
        assert found["rows"] == 60
        assert columns["label"]["common"] == [["bad", 20], ["good", 20], ["plain", 20]]
        assert columns["score"]["range"] == ["0", "7.375", "14.75"] and columns["score"]["tokens"] is None
        assert columns["text"]["tokens"] == sum(len(row["text"]) for row in rows())
    assert columns["text"]["kind"] == "text" and len(found["examples"]) == min(20, found["rows"])


def test_tokens_are_those_of_a_tokenizer(tmp_path, capsys):
    words = Tokenizer(WordLevel({"one": 0, "two": 1, "[UNK]": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "rows.csv").write_text("text,label\none two,a\ntwo two five,b\n")
    path = str(tmp_path / "rows.csv")
    assert [column["tokens"] for column in inspect(capsys, path, f"--tokenizer={tmp_path}")["columns"]] == [5, 2]
    assert [column["tokens"] for column in inspect(capsys, path)["columns"]] == [19, 2]
    assert main(["data", "inspect", path, f"--html={tmp_path}/page.html"]) == 0
    assert "<td>19</td>" in (tmp_path / "page.html").read_text()
    assert main(["data", "inspect", path, f"--tokenizer={tmp_path}/none"]) == 2
    assert "data.tokenizer.path: expected a tokenizer.json" in capsys.readouterr().err


def test_rows_are_equal_where_only_their_places_differ(tmp_path, capsys):
    """The path of a recording is its place; a column of a table that is called key is not."""
    assert inspect(capsys, source_of(AudioFolder, tmp_path, rows(3) * 2).paths)["duplicates"] == 3
    (tmp_path / "rows.csv").write_text("key,text\n1,a\n2,a\n2,a\n")
    assert inspect(capsys, str(tmp_path / "rows.csv"))["duplicates"] == 1


def test_broken_rows_and_duplicates_are_counted(tmp_path, capsys):
    content = rows(40)
    write_json_lines(tmp_path / "train.jsonl", [*content, content[3]])
    same = {"text": "one two three four five six seven eight", "label": "bad", "score": 1.0}
    write_json_lines(tmp_path / "test.jsonl", [content[5], same, same | {"text": same["text"] + " nine"}])
    with (tmp_path / "test.jsonl").open("a") as file:
        file.write('{"text": "cut\n')
    found = inspect(capsys, f"{tmp_path}/*.jsonl", "--near=0.7", "--examples=2")
    assert (found["files"], found["rows"], found["splits"]) == (2, 45, {"train": 41, "test": 3})
    assert (found["broken"], found["duplicates"], found["duplicates_across"]) == (1, 2, 1)
    assert found["near_duplicates"] == 3 and len(found["examples"]) == 2
    assert "test.jsonl: line 4: " in found["first_broken"][0]
    assert main(["data", "inspect", f"{tmp_path}/*.jsonl"]) == 0
    assert "of these, in another split" in capsys.readouterr().out


def test_texts_are_alike_from_the_share_on(tmp_path, capsys):
    """Pairs of 42 words, of which the last ones differ: they share 27 of 53 pieces, or 36 of 44."""
    words = [f"{pair} {' '.join(f'{pair}w{number}' for number in range(40))}" for pair in range(100)]
    for same, count in ((29, 0), (38, 100)):
        texts = [
            " ".join(text.split()[:same] + [f"{end}{n}" for n in range(42 - same)]) for text in words for end in "ab"
        ]
        (tmp_path / "rows.csv").write_text("text,number\n" + "".join(f"{text},1\n" for text in texts))
        assert inspect(capsys, str(tmp_path / "rows.csv"), "--near=0.65")["near_duplicates"] == count


@pytest.mark.parametrize("kind", [ImageFolder, AudioFolder, Tables], ids=lambda kind: kind.__name__)
def test_a_page_has_pictures_and_sounds(kind, tmp_path, capsys):
    source = source_of(kind, tmp_path, rows(9))
    assert main(["data", "inspect", str(source.paths), f"--html={tmp_path}/page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    start = {ImageFolder: "data:image/png;base64,", AudioFolder: "data:audio/wav;base64,", Tables: "film 8 was plain"}
    assert page.count(start[kind]) == (1 if kind is Tables else 9)
    assert "9 rows in 9 files" in page or kind is Tables
    assert "<td>validation</td>" in page and "equal to an earlier one" in page
    assert main(["data", "inspect", str(source.paths), f"--html={tmp_path}/no/page.html"]) == 2
    assert "--html: expected a file in a folder that is there" in capsys.readouterr().err


def test_mistakes_are_one_line(tmp_path, capsys):
    assert main(["data", "inspect", str(tmp_path / "none.jsonl")]) == 2
    assert "data.source: expected a file, or a pattern of files" in capsys.readouterr().err
    write_json_lines(tmp_path / "rows.jsonl", rows(4))
    assert main(["data", "inspect", str(tmp_path / "rows.jsonl"), "--near=2"]) == 2
    assert "--near: expected" in capsys.readouterr().err
