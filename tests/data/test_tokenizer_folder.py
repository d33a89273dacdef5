"""Tokenizers in the files in which they are published: ids, special tokens, what stands around texts, continuations."""

import json

import pytest
import tokenizers

from txjax.data import TokenizerFolder
from txjax.data.tokenizers.special_tokens import Roles
from txjax.types import UserError

from helpers import published_tokenizers as published
from helpers.published_tokenizers import TEXTS

pytestmark = pytest.mark.claim("Transfer", "published tokenizers: ids, special tokens and pairs as their files say")

FORMS = ("gpt2", "t5", "bert", "roberta", "llama")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of each form."""
    return {form: getattr(published, form)(tmp_path_factory.mktemp(form)) for form in FORMS}


@pytest.fixture(scope="module", params=FORMS)
def tokenizer(request, folders):
    return TokenizerFolder(str(folders[request.param]))


def test_text_of_data_never_becomes_a_special_token(tokenizer):
    special = tokenizer.special_ids() - {tokenizer.roles().unk}
    written = " ".join(tokenizer.special_names())
    for text in (*TEXTS, written):
        assert not special & set(tokenizer.encode(text).tolist())
    assert special <= set(published.ids(tokenizer, written))


def test_a_field_makes_names_in_data_special_tokens(folders):
    path = str(folders["llama"])
    plain, parsed = TokenizerFolder(path), TokenizerFolder(path, parse_specials=True)
    assert parsed.encode("a<|turn|>").tolist() == [*plain.encode("a"), 2]
    assert parsed.fingerprint() != plain.fingerprint()


def test_a_continuation_is_what_its_tokens_add_to_the_text(tokenizer):
    for before, after in (("The old", " man's café"), ("One", " two  three"), ("a", "b"), ("", "One")):
        start, whole = (tokenizer.encode(text).tolist() for text in (before, before + after))
        if whole[: len(start)] == start:
            text = tokenizer.continuation(start, whole[len(start) :])
            assert tokenizer.decode(start) + text == tokenizer.decode(whole)
    start, end = (tokenizer.encode(text).tolist() for text in ("The old", "man"))
    assert tokenizer.decode(start) + tokenizer.continuation(start, end) == tokenizer.decode(start + end)


@pytest.mark.parametrize(("form", "text"), [("t5", " man"), ("bert", " man"), ("gpt2", "man")])
def test_the_space_between_words_is_not_lost(folders, form, text):
    tokenizer = TokenizerFolder(str(folders[form]))
    start, end = (tokenizer.encode(words).tolist() for words in ("The old", "man"))
    assert tokenizer.continuation(start, end) == text


def test_pairs_are_framed_as_by_the_library(tokenizer):
    whole = tokenizer.load().whole
    for texts in (("The old man",), ("The old man", "One two")):
        encoding = whole.encode(*texts)
        row = tokenizer.frame(len(texts)).row([tokenizer.encode(text) for text in texts])
        assert row.ids.tolist() == encoding.ids and row.types.tolist() == encoding.type_ids
        assert [number - 1 if number else None for number in row.texts.tolist()] == encoding.sequence_ids


def test_robertas_pairs_have_two_tokens_between_and_one_type(folders):
    frame = TokenizerFolder(str(folders["roberta"])).frame(2)
    assert (frame.marks, frame.text_types, frame.size) == (((0,), (2, 2), (2,)), (0, 0), 4)


@pytest.mark.parametrize(
    ("form", "roles"),
    [
        ("gpt2", Roles(bos=50256, eos=(50256,), unk=50256)),
        ("t5", Roles(eos=(1,), pad=0, unk=2)),
        ("bert", Roles(pad=0, unk=1, cls=2, sep=3, mask=4)),
        ("roberta", Roles(bos=0, eos=(2,), pad=1, unk=3, mask=4, cls=0, sep=2)),
        ("llama", Roles(bos=0, eos=(2, 1), pad=3)),
    ],
)
def test_files_say_the_parts_of_special_tokens(folders, form, roles):
    assert TokenizerFolder(str(folders[form])).roles() == roles


def test_without_files_the_usual_names_say_them(folders, tmp_path):
    file = tmp_path / "other.json"
    file.write_bytes((folders["roberta"] / "tokenizer.json").read_bytes())
    tokenizer = TokenizerFolder(str(file))
    assert tokenizer.roles() == Roles(bos=0, eos=(2,), pad=1, unk=3, mask=4)


def test_a_prompt_begins_with_the_token_that_the_tokenizer_adds_once(folders):
    tokenizer = TokenizerFolder(str(folders["llama"]))
    (plain,) = tokenizer.parse_batch(["One two"])
    assert published.ids(tokenizer, "One two") == published.ids(tokenizer, "<|begin|>One two") == [0, *plain]


def test_ids_behind_a_hole_in_the_vocabulary_are_tokens(tmp_path):
    words = {"[UNK]": 0, "red": 1, "green": 7}
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = TokenizerFolder(str(tmp_path))
    assert (tokenizer.vocab(), tokenizer.decode([1, 7]), tokenizer.decode([1, 4, 7])) == (
        8,
        "red green",
        "red\ufffdgreen",
    )


@pytest.mark.parametrize("entry", ["chat_template.jinja", "tokenizer_config.json"])
def test_a_chat_template_is_read_from_either_file(folders, tmp_path, entry):
    template = "{{ messages[0].content }}"
    (tmp_path / "tokenizer.json").write_bytes((folders["llama"] / "tokenizer.json").read_bytes())
    assert TokenizerFolder(str(tmp_path)).chat_template() is None
    content = template if entry.endswith(".jinja") else json.dumps({"chat_template": template})
    (tmp_path / entry).write_text(content)
    assert TokenizerFolder(str(tmp_path)).chat_template() == template


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", "{}", r"a folder with a tokenizer.json, got .*, with config.json'; .*save_pretrained"),
        ("tokenizer.model", "", r"a tokenizer_class among .*LlamaTokenizer.* for tokenizer.model, got 'none'"),
    ],
)
def test_a_folder_without_a_tokenizer_says_how_to_write_one(tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=said):
        TokenizerFolder(str(tmp_path)).check()


def test_a_damaged_settings_file_is_named(folders, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes((folders["llama"] / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(UserError, match="JSON in .*tokenizer_config.json"):
        TokenizerFolder(str(tmp_path)).roles()


def test_pieces_are_those_of_sentencepiece(folders):
    import sentencepiece

    reference = sentencepiece.SentencePieceProcessor(model_file=str(folders["t5"] / "spiece.model"))
    tokenizer = TokenizerFolder(str(folders["t5"]))
    for text in TEXTS:
        assert tokenizer.encode(text).tolist() == reference.encode(text)


@pytest.mark.slow
def test_mistrals_pieces_are_those_of_sentencepiece(tmp_path):
    pytest.importorskip("mistral_common")
    import sentencepiece

    tokenizer = TokenizerFolder(str(published.mistral(tmp_path)))
    reference = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    for text in (*TEXTS, *published.corpus()[::50]):
        assert tokenizer.encode(text).tolist() == reference.encode(text)
        assert published.ids(tokenizer, text)[0] == tokenizer.roles().bos == 1
    start, end = (tokenizer.encode(words).tolist() for words in ("The old", "man"))
    assert tokenizer.continuation(start, end) == " man"


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_ids_are_those_of_transformers(folders, form):
    transformers = pytest.importorskip("transformers")
    tokenizer, reference = (
        TokenizerFolder(str(folders[form])),
        transformers.AutoTokenizer.from_pretrained(folders[form]),
    )
    for text in TEXTS:
        ids = published.ids(tokenizer, text)
        assert ids == reference(text)["input_ids"]
        assert tokenizer.decode(ids) == reference.decode(ids, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize(
    ("entries", "before", "after"),
    [
        ({"add_bos_token": False}, (), ()),
        ({"add_bos_token": True, "add_eos_token": True}, (0,), (2,)),
        ({"add_eos_token": True}, (), (2,)),
        ({"add_bos_token": True, "bos_token": None}, (), ()),
    ],
)
def test_settings_replace_the_post_processor_as_in_transformers(folders, tmp_path, entries, before, after):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folders["llama"] / name).read_bytes())
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    published.settings(tmp_path, **settings | entries)
    tokenizer = TokenizerFolder(str(tmp_path))
    assert tokenizer.frame(1).marks == (before, after) and tokenizer.opening() == before
    assert published.ids(tokenizer, "One") == [*before, *tokenizer.encode("One"), *after]


def test_a_vocabulary_without_its_merges_is_no_tokenizer(folders, tmp_path):
    (tmp_path / "vocab.json").write_bytes((folders["gpt2"] / "vocab.json").read_bytes())
    with pytest.raises(UserError, match="a folder with a tokenizer.json, got .*, with vocab.json"):
        TokenizerFolder(str(tmp_path)).check()
