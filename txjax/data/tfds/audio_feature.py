"""TFDS's feature `Audio` without TensorFlow, which TFDS's own class needs even to read a prepared set."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core.features import feature as features
from tensorflow_datasets.core.features.tensor_feature import Encoding
from tensorflow_datasets.core.proto import feature_pb2

_STORED_AS = tfds.features.Audio  # its name stands in features.json


class Audio(tfds.features.Tensor):
    """Samples as they are stored, or the bytes of an audio file.

    Reads and writes the same `features.json` and the same records as `tfds.features.Audio`.

    Args:
      file_format: the name of the file format, such as `flac`.
      shape: (T,) or (T, channels), of samples.
      dtype: of samples.
      sample_rate: samples a second. If None, not known.
      encoding: how samples are stored in a record.
      lazy_decode: whether a record has a file and not samples.
    """

    def __init__(
        self,
        *,
        file_format: str | None = None,
        shape: tuple[int | None, ...] = (None,),
        dtype: Any = np.int64,
        sample_rate: int | None = None,
        encoding: str | Encoding = Encoding.NONE,
        doc: Any = None,
        lazy_decode: bool = False,
    ):
        self._audio = {"shape": tuple(shape), "dtype": np.dtype(dtype), "file_format": file_format}
        self.sample_rate = sample_rate
        self.lazy_decode = lazy_decode
        if lazy_decode:
            super().__init__(shape=(), dtype=np.object_, doc=doc)
        else:
            super().__init__(shape=shape, dtype=dtype, encoding=encoding, doc=doc)

    @property
    def _fully_qualified_class_name(self) -> str:
        return f"{_STORED_AS.__module__}.{_STORED_AS.__name__}"

    @classmethod
    def from_json_content(cls, value: Any) -> Audio:
        """The feature of a `features.json`: a protobuf message, or the dictionary of TFDS before 4.6."""
        if isinstance(value, dict):
            return cls(
                file_format=value["file_format"],
                shape=tuple(value["shape"]),
                dtype=features.dtype_from_str(value["dtype"]),
                sample_rate=value["sample_rate"],
                lazy_decode=value.get("lazy_decode", False),
            )
        return cls(
            file_format=value.file_format or None,
            shape=features.from_shape_proto(value.shape),
            dtype=features.dtype_from_str(value.dtype),
            sample_rate=value.sample_rate or None,
            encoding=value.encoding or Encoding.NONE,
            lazy_decode=value.lazy_decode,
        )

    def to_json_content(self) -> feature_pb2.AudioFeature:
        return feature_pb2.AudioFeature(
            shape=features.to_shape_proto(self._audio["shape"]),
            dtype=features.dtype_to_str(self._audio["dtype"]),
            file_format=self._audio["file_format"],
            sample_rate=self.sample_rate,
            encoding=self._encoding.value,
            lazy_decode=self.lazy_decode,
        )


def stored_size(feature: tfds.features.Tensor, name: str, example: Any) -> tuple[int, int]:
    """The samples and the channels of a recording, by the stored shape or number of values.

    Args:
      feature: (T,) or (T, channels) samples.
      name: its name.
      example: the record, a parsed `tf.train.Example`.
    """
    entries = example.features.feature
    if f"{name}/shape" in entries:
        samples, channels = entries[f"{name}/shape"].int64_list.value
        return int(samples), int(channels)
    channels = (*feature.shape, 1)[1]
    stored = entries[name]
    if not stored.HasField("bytes_list"):
        return (len(stored.int64_list.value) or len(stored.float_list.value)) // channels, channels
    content = stored.bytes_list.value[0]
    if feature._encoding == Encoding.ZLIB:
        content = zlib.decompress(content)
    return len(content) // np.dtype(feature.np_dtype).itemsize // channels, channels
