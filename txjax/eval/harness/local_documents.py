"""Documents of a harness task from a file next to it: no hub, no cache."""

import json
from pathlib import Path
from typing import Any

from txjax.io.text_files import read_lines

SPLIT = "split"  # the key of a document that names its split


def read(file: str, config_source: str, **metadata: Any) -> Any:
    """The documents of a JSON-lines file, a `datasets.Dataset` in memory by split; the task's `custom_dataset`.

        custom_dataset: !function txjax.eval.harness.local_documents.read
        dataset_kwargs: {file: arithmetic.jsonl}

    Args:
      file: the path from the task's YAML file.
      config_source: the path of the YAML file; the library adds it.
      metadata: the task's, unused.
    """
    import datasets  # an extra

    splits: dict[str, list[dict[str, Any]]] = {}
    for line in read_lines(Path(config_source).parent / file):
        document = json.loads(line)
        splits.setdefault(document.pop(SPLIT), []).append(document)
    return {split: datasets.Dataset.from_list(documents) for split, documents in splits.items()}
