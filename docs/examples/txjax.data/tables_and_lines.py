"""Files of rows.

The same rows in files of five kinds.
"""

import io
import tarfile

import pandas as pd
import pyarrow as pa

from txjax.data import ArrowFiles, JSONLines, LabelledText, ParquetFiles, Tables, WebDataset

films = pd.DataFrame({"text": [f"film {n}" for n in range(60)], "label": ["dull", "good", "great"] * 20})
films.to_json("films.jsonl", orient="records", lines=True)
films.to_csv("films.csv", index=False)
films.to_parquet("films.parquet")
table = pa.Table.from_pandas(films)
with pa.ipc.new_stream("films.arrow", table.schema) as stream:
    stream.write_table(table)
with tarfile.open("films.tar", "w") as archive:
    for number, row in films.iterrows():
        content = row.to_json().encode()
        member = tarfile.TarInfo(f"{number}.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))

sources = (
    JSONLines("films.jsonl"),
    Tables("films.csv", separator=","),
    ParquetFiles("films.parquet"),
    ArrowFiles("films.arrow"),
    WebDataset("films.tar"),
)
for source in sources:
    data = LabelledText(source=source, text=("text",), split="train+validation+test")
    print(type(source).__name__, data.class_names(), len(data.open()))
# JSONLines ('dull', 'good', 'great') 60
# Tables ('dull', 'good', 'great') 60
# ParquetFiles ('dull', 'good', 'great') 60
# ArrowFiles ('dull', 'good', 'great') 60
# WebDataset ('dull', 'good', 'great') 60
