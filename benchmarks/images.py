"""The cost of image input: decoding, transforms, normalisation, mixing, in one thread and by the loader.

    python benchmarks/images.py [--examples=200] [--workers=2]

The images are synthetic, about as large as ImageNet's, and replace the embedded digits. CPU time counts the whole
process; the loader's throughput, by its threads and by worker processes (`data_workers`), is in wall time.
"""

import io
import sys
import time

import numpy as np
from PIL import Image

from txjax.cli.parser import Parser
from txjax.data import (
    CenterCrop,
    Flip,
    Images,
    OneOf,
    RandAugment,
    RandomErasing,
    RandomResizedCrop,
    Resize,
    Source,
    Transform,
    train_batches,
)
from txjax.data.loading.rng import example_rng
from txjax.log.terminal_table import table


def photo(seed: int) -> bytes:
    """A JPEG of 500x375 pixels: blurred noise with some grain."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(256, size=(24, 32, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC)).astype(int)
    buffer = io.BytesIO()
    grainy = (smooth + rng.integers(-12, 13, size=smooth.shape)).clip(0, 255).astype(np.uint8)
    Image.fromarray(grainy).save(buffer, format="jpeg", quality=90)
    return buffer.getvalue()


PHOTOS = [photo(seed) for seed in range(16)]


class Decode(Transform):
    """Replaces the digit by a photo."""

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(PHOTOS[rng.integers(len(PHOTOS))])))


def images(*transforms: Transform, size: int = 224, mix: OneOf | None = None) -> Images:
    return Images(
        name="txjax_digits",
        shape=(size, size, 3),
        transforms=(Decode(), *transforms),
        mix=mix,
        mean=(0.5,) * 3,
        std=(0.2,) * 3,
    )


def speed(source: Source, examples: int, workers: int) -> float:
    """Images a second of the loader, in batches of 16; what is read ahead at the start doesn't count."""
    batches = train_batches(source, batch_size=16, seed=0, workers=workers)
    for _ in range(8):
        next(batches)
    started = time.perf_counter()
    for _ in range(examples // 16):
        next(batches)
    found = examples // 16 * 16 / (time.perf_counter() - started)
    batches.close()
    return found


def main() -> None:
    parser = Parser("benchmarks/images.py", __doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    flags = parser.parse_args(sys.argv[1:])
    examples = flags.examples
    crop, augment = RandomResizedCrop(224), RandAugment(magnitude=9, deviation=0.5, probability=0.5)
    recipes = {
        "decoded, evaluation": images(Resize(256), CenterCrop(224)),
        "crop, flip": images(crop, Flip()),
        "crop, flip, RandAugment, erasing": images(crop, Flip(), augment, RandomErasing()),
        "the same, mixed": images(crop, Flip(), augment, RandomErasing(), mix=OneOf()),
    }
    rows = []
    for name, data in recipes.items():
        source = data.open()
        source.example(0, 1, example_rng(0, 1, 0))
        before = time.process_time()
        for i in range(examples):
            source.example(i, 1, example_rng(0, 1, i))
        cost = (time.process_time() - before) / examples
        speeds = [speed(source, examples, workers) for workers in (0, flags.workers)]
        rows.append([name, f"{1e3 * cost:.1f}", f"{1 / cost:.0f}", *(f"{each:.0f}" for each in speeds)])
    size = np.mean([len(p) for p in PHOTOS]) / 1e3
    counted = "threads, images/s", f"{flags.workers} workers, images/s"
    columns = ["recipe", "ms of CPU an image", "images a second of CPU", *counted]
    table(f"JPEGs of 500x375 pixels, {size:.0f} kB", columns, rows)


if __name__ == "__main__":
    main()
