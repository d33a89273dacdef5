"""A label for each word.

The classes are those that the library `datasets` writes into the schema of an Arrow or Parquet file.
"""

import json

import numpy as np
import pyarrow as pa

from txjax.data import ArrowFiles, TokenLabels

tags = {"_type": "Sequence", "feature": {"_type": "ClassLabel", "names": ["O", "B-PER", "I-PER"]}}
table = pa.table({"words": [["Ada", "met", "Bob", "Smith"]] * 20, "tags": [[1, 0, 1, 2]] * 20})
table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": {"tags": tags}}})})
with pa.ipc.new_stream("train.arrow", table.schema) as stream:
    stream.write_table(table)

data = TokenLabels(source=ArrowFiles("train.arrow"), text=("words",), label="tags", length=32)
example = data.open().example(0, epoch=0, rng=np.random.default_rng(0))
print(data.class_names(), example["targets"][example["weights"] > 0])
