"""LLaVA's JSON beside a folder of images is a data set."""

import numpy as np
import pytest

from txjax.data import Conversations
from txjax.data.multimodal.conversation_folders import list_conversations
from txjax.types import UserError

from helpers.conversation_folder import entry, pixels, write

SMALL = dict(name="txjax_conversations", image_tokens=2, length=300, shape=(4, 4, 3))


def test_each_file_is_a_split(tmp_path):
    first = entry("<image>\nWhat?", "A cat.", image="cats/a.png", id="7")
    data_dir = write(tmp_path, {"cats/a.png": pixels(1)}, train=[first, entry("Hi.", "Hello.")], valid=[first])
    source = Conversations(split="train", data_dir=data_dir, **SMALL).open()
    assert len(source) == 2 and source.place(0).endswith(f"({tmp_path}/train.json entry 1, id 7)")
    assert len(Conversations(split="valid", data_dir=data_dir, **SMALL).open()) == 1
    with pytest.raises(
        UserError, match="data.split: expected splits of txjax_conversations .train, valid., got 'test'"
    ):
        Conversations(split="test", data_dir=data_dir, **SMALL).check()


def test_one_file_is_the_split_train(tmp_path):
    write(tmp_path, {}, **{"mix-665k": [entry("Hi.", "Hello.")]})
    assert list(list_conversations(tmp_path).splits) == ["train"]
    write(tmp_path, {}, valid=[entry("Hi.", "Hello.")])
    list_conversations.cache_clear()
    with pytest.raises(UserError, match="mix-665k.json: expected a name of letters, digits and _, .* got 'mix-665k'"):
        list_conversations(tmp_path)


def test_a_folder_that_changes_is_another_set(tmp_path):
    data_dir = write(tmp_path, {"a.png": pixels(1)}, train=[entry("<image>", "One.", image="a.png")])
    data = Conversations(data_dir=data_dir, **SMALL)
    before = data.open()
    write(tmp_path, {"a.png": pixels(2, 5, 5)})
    list_conversations.cache_clear()  # as in another process
    after = data.open()
    assert before.fingerprint != after.fingerprint
    with pytest.raises(UserError, match=r"data.shape: expected \(5, 5, 3\) as of .*train.json entry 1"):
        after.example(0, 0, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[{", r"train.json: expected a JSON list of .*JSONDecodeError"),
        ("{}", r"train.json: expected a JSON list of .*got '{}'"),
        ('[{"id": 1}]', r"train.json entry 1: expected {\"id\": \"7\".*got"),
        ('[{"conversations": [{"from": "human"}]}]', "train.json entry 1: expected"),
        ('[{"conversations": [{"from": "human", "value": 3}]}]', "entry 1: expected texts as from and value"),
        ('[{"conversations": [], "image": 3}]', "entry 1: expected as image the path of a file, or a list of these"),
        ('[{"conversations": []}, {"conversations": [], "image": "../a.png"}]', "entry 2: .* a path inside the folder"),
    ],
)
def test_files_that_are_no_conversations(tmp_path, content, said):
    (tmp_path / "train.json").write_text(content)
    with pytest.raises(UserError, match=said):
        list_conversations(tmp_path)


def test_folders_without_a_file(tmp_path):
    with pytest.raises(UserError, match="data.data_dir: expected a folder with a JSON file for each split"):
        list_conversations(tmp_path)
    with pytest.raises(UserError, match="data.data_dir: expected a folder with images and a JSON file"):
        list_conversations(tmp_path / "none")
    with pytest.raises(UserError, match="data.data_dir: expected the folder of images, with a JSON file, got None"):
        Conversations(**SMALL).check()
