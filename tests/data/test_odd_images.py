"""Damaged images, other channels, other depths: an example of weight 0 or one line, never other pixels."""

import logging
import shutil
import struct
import subprocess
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile

from txjax.data import CenterCrop, Channels, Images, Mixup, Resize, Subset, eval_batches, train_batches
from txjax.data.images.image_files import UnreadableImage, decode_image, decode_mask
from txjax.types import UserError

from helpers import photo_set, runs
from helpers.photo_set import file, pixels


def png(width: int, height: int, rows: bytes, bits: int = 8, interlaced: int = 0) -> bytes:
    """A PNG of colours with these rows, each after the number of its filter."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, interlaced)
    chunks = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


JPEG = file(pixels(3), "jpeg")
DAMAGED = {
    "truncated JPEG": JPEG[: len(JPEG) // 2],
    "truncated PNG": file(pixels(3))[:-40],
    "empty": b"",
    "text": b"no image at all",
    "16 bits": file(Image.fromarray(pixels(3)[..., 0].astype(np.uint16) * 200)),
    "16 bits of colours": png(2, 2, 2 * (b"\0" + bytes(range(12))), bits=16),
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n(x) show\n%%EOF\n",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_and_deep_pixels_are_unreadable(name):
    with pytest.raises(UnreadableImage, match="more than 8 bits" if "16 bits" in name else "Error") as error:
        decode_image(DAMAGED[name], 3)
    assert "\n" not in str(error.value)


ROW = b"\0" + bytes(range(1, 31))  # of ten colours, not filtered
NOISE = np.random.default_rng(0).integers(256, size=(64, 48, 3), dtype=np.uint8)
END = b"\xff\xd9"  # of a JPEG


def cut_jpeg(**options) -> bytes:
    """Half of a JPEG with the marker of its end."""
    whole = file(NOISE, "jpeg", **options)
    return whole[: len(whole) // 2] + END


EARLY = {
    "rows of a PNG": png(10, 8, 5 * ROW),
    "a row of a PNG": png(10, 8, (8 * ROW)[:-1]),
    "all rows of a PNG": png(10, 8, b""),
    "a JPEG": cut_jpeg(),
    "a progressive JPEG": cut_jpeg(progressive=True),
    "a JPEG of print colours": file(Image.fromarray(NOISE).convert("CMYK"), "jpeg")[:4000] + END,
}


@pytest.mark.parametrize("name", EARLY)
def test_data_that_end_before_the_last_row_are_no_image(name):
    with pytest.raises(UnreadableImage, match="truncated"):
        decode_image(EARLY[name], 3)


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "bmp", "tiff", "webp"])
def test_no_setting_of_the_process_makes_rows_of_a_file_that_was_cut_off(kind, monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    whole = file(NOISE, kind)
    with pytest.raises(UnreadableImage):
        decode_image(whole[: len(whole) // 2], 3)


def test_whole_files_that_end_in_one_colour_are_images():
    black = np.zeros((9, 7, 3), np.uint8)
    np.testing.assert_array_equal(decode_image(file(black), 3), black)
    np.testing.assert_array_equal(decode_image(file(Image.new("1", (7, 9))), 3), black)
    columns = (1, 1, 2, 2, 2, 4, 4, 3, 3, 3, 3, 7, 7, 7, 7)  # of the rows of the seven passes
    rows = bytes(sum(1 + 3 * count for count in columns))
    np.testing.assert_array_equal(decode_image(png(7, 8, rows, interlaced=1), 3), black[:8])
    with pytest.raises(UnreadableImage, match="truncated"):
        decode_image(png(7, 8, rows[:-1], interlaced=1), 3)
    grey = np.full((64, 48, 3), 128, np.uint8)
    for options in ({}, {"progressive": True}):
        np.testing.assert_array_equal(decode_image(file(grey, "jpeg", **options), 3), grey)


def test_a_size_is_refused_before_pixels_are_decoded(monkeypatch):
    def load(picture):
        raise AssertionError("pixels are decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    huge = png(30_000, 19_000, ROW)
    with pytest.raises(UnreadableImage, match="^19000 x 30000 pixels, and at most 89,478,485 are decoded$"):
        decode_image(huge, 3)
    with pytest.raises(UnreadableImage, match="^19000 x 30000 pixels instead of 28 x 28$"):
        decode_image(huge, 3, (28, 28))
    with pytest.raises(UnreadableImage, match="^19000 x 30000 pixels instead of any x 28$"):
        decode_mask(huge, (None, 28))


def test_masks_are_the_numbers_in_a_file():
    numbers = np.arange(12, dtype=np.uint16).reshape(3, 4)
    few = Image.fromarray(numbers.astype(np.uint8), mode="P")
    few.putpalette([200, 10, 10] * 256)
    for picture, factor in ((few, 1), (Image.fromarray(numbers.astype(np.uint8)), 1), (numbers * 1000, 1000)):
        mask = decode_mask(file(picture), (3, 4))
        assert mask.dtype == np.int32
        np.testing.assert_array_equal(mask, numbers.astype(np.int32) * factor)
    with pytest.raises(UnreadableImage, match="truncated"):
        decode_mask(EARLY["rows of a PNG"])


def test_data_start_no_program(monkeypatch):
    def start(*arguments, **options):
        raise AssertionError("a program is started")

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(shutil, "which", lambda name, *more, **options: f"/usr/bin/{name}")
    with pytest.raises(UnreadableImage, match="cannot identify image file"):
        decode_image(DAMAGED["PostScript"], 3)


def test_every_kind_of_file_has_the_pixels_that_it_shows():
    image = pixels(0)
    grey, alpha = image[..., 0], np.dstack([image, image[..., :1]])
    np.testing.assert_array_equal(decode_image(file(image), 3), image)
    np.testing.assert_array_equal(decode_image(file(grey), 3), np.repeat(grey[..., None], 3, -1))
    np.testing.assert_array_equal(decode_image(file(grey), 1), grey[..., None])
    np.testing.assert_array_equal(decode_image(file(alpha), 3), image)
    np.testing.assert_array_equal(decode_image(file(alpha), 4), alpha)
    few = Image.fromarray(image // 64 * 64).convert("P")  # a palette: numbers of colours are no greys
    np.testing.assert_array_equal(decode_image(file(few), 3), np.asarray(few.convert("RGB")))
    print_colours = Image.fromarray(np.full((4, 4, 3), (200, 30, 30), np.uint8)).convert("CMYK")
    assert np.abs(decode_image(file(print_colours, "jpeg"), 3).astype(int) - (200, 30, 30)).max() < 8


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    files = [file(pixels(i), "jpeg") for i in range(8)]
    files[3], files[5] = DAMAGED["truncated JPEG"], DAMAGED["text"]
    return photo_set.prepare(tmp_path_factory.mktemp("tfds"), files)


def photos(data_dir, **fields):
    return Images("made_photos", data_dir=data_dir, **dict(shape=(10, 12, 3), classes=3) | fields)


def test_a_damaged_image_is_a_line_that_names_its_record(data_dir):
    source = photos(data_dir).open()
    with pytest.raises(UserError) as error:
        source.example(3, 0, None)
    said = str(error.value)
    assert "\n" not in said and said.startswith("data.corrupt: expected images that can be decoded")
    assert "made_photos/1.0.0" in said and "record 3: OSError" in said and '"skip"' in said


def test_an_image_of_another_size_than_the_set_declares_is_a_line(tmp_path):
    data_dir = photo_set.prepare(tmp_path, [file(pixels(0)), png(9000, 7000, ROW)], size=(10, 12))
    with pytest.raises(UserError, match="record 1: 7000 x 9000 pixels instead of 10 x 12'"):
        photos(data_dir).open().example(1, 0, None)


def test_skipped_images_weigh_nothing_and_are_counted_once(data_dir, caplog):
    caplog.set_level(logging.WARNING)
    source, whole = photos(data_dir, corrupt="skip").open(), photos(data_dir).open()
    for _ in range(2):
        (batch,) = eval_batches(source, batch_size=8)
    np.testing.assert_array_equal(batch["weights"], [1, 1, 1, 0, 1, 0, 1, 1])
    np.testing.assert_array_equal(batch["image"][[3, 5]], 0.0)
    assert list(batch["label"]) == [i % 3 for i in range(8)]
    for i in (0, 1, 2, 4, 6, 7):
        np.testing.assert_array_equal(batch["image"][i], whole.example(i, 0, None)["image"])
    lines = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len(lines) == 2 and "(2 so far)" in lines[1] and "record 3" in "".join(lines)


def test_an_image_that_is_mixed_with_a_damaged_one_weighs_nothing(data_dir):
    batches = train_batches(photos(data_dir, corrupt="skip", mix=Mixup()).open(), batch_size=8, seed=0)
    weights = [next(batches) for _ in range(4)]
    batches.close()
    assert all((batch["weights"][np.isin(batch["id"], (3, 5))] == 0).all() for batch in weights)
    assert 0 < sum(batch["weights"].sum() for batch in weights) < 4 * 6
    assert all(np.isfinite(batch["image"]).all() for batch in weights)


def test_the_first_image_may_be_damaged_and_a_subset_may_hold_some(tmp_path):
    files = [b"", *(file(pixels(i)) for i in range(5))]
    data = photos(photo_set.prepare(tmp_path, files), corrupt="skip")
    assert data.open().example(0, 0, None)["weights"] == 0
    few = photos(str(tmp_path), corrupt="skip", subset=Subset(per_class=2)).open()
    assert sum(float(few.example(i, 0, None)["weights"]) for i in range(6)) == 5


@pytest.mark.slow
def test_training_stops_with_the_line_or_skips(data_dir, tmp_path, root):
    flags = ["--config.data.name=made_photos", f"--config.data.data_dir={data_dir}", "--config.model.width=8"]
    flags += ["--config.data.shape=(8, 8, 3)", "--config.data.classes=3", "--config.model.head.classes=3"]
    flags += ["--config.data.transforms=(Resize(8), CenterCrop(8))", "--config.evals={}", "--config.num_steps=2"]
    flags += ["--config.batch_size=8", "--config.model.depth=1", "--config.checkpoint.best=None"]
    flags += ["--config.log_every_steps=1", "--config.optimizer.schedule.warmup_steps=0"]
    config = f"--config={root / 'configs/vision/vit_digits.py'}"
    code, _, errors = runs.command("train", config, f"--workdir={tmp_path / 'a'}", *flags)
    assert code == 2 and "cannot be decoded" not in errors and "Traceback" not in errors, errors
    assert "data.corrupt: expected images that can be decoded, got 'made_photos/1.0.0: " in errors
    code, _, errors = runs.command("train", config, f"--workdir={tmp_path / 'b'}", *flags, "--config.data.corrupt=skip")
    assert code == 0 and "is left out (2 so far)" in errors, errors
    assert all(np.isfinite(row["train/loss"]) for row in runs.rows(tmp_path / "b"))


def test_images_of_other_channels_are_a_line_that_names_the_transform(data_dir):
    with pytest.raises(
        UserError, match=r"data.shape: expected \(10, 12, 3\) as of .*record 0, got .*Channels\(count\)"
    ):
        photos(data_dir, shape=(10, 12, 1)).open()
    seen = photos(data_dir, shape=(10, 12, 1), transforms=(Channels(1),)).open().example(0, 0, None)
    assert seen["image"].shape == (10, 12, 1)


def test_an_alpha_channel_is_dropped_by_channels_and_named_by_resize():
    image = np.dstack([pixels(0), pixels(1)[..., :1]])
    np.testing.assert_array_equal(Channels(3)(image, None), image[..., :3])
    np.testing.assert_array_equal(Channels(1)(image[..., :2], None), image[..., :1])
    with pytest.raises(UserError, match=r"1 or 3 channels for resizing, got '4 channels'; put Channels\(count\)"):
        Resize(4)(image, None)
    assert CenterCrop(4)(image, None).shape == (4, 4, 4)
