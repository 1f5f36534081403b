"""The dataset and the runs folder that mutants are made of."""

import gzip
import json

from xmcbench import Options, run

TOPICS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle")


def make(folder):
    """Write ``tiny``, a dataset with a filter file and uids in common, and ``runs``, two cells on it."""
    data = folder / "tiny"
    data.mkdir()

    def line(row):
        title = f"{TOPICS[row % 10]} story {row}"
        content = f"It is about the {TOPICS[row % 10]} and the {TOPICS[(row + 3) % 10]}."
        return {
            "uid": f"{row:04}",
            "title": title,
            "content": content,
            "target_ind": sorted({row % 10, (row + 3) % 10}),
        }

    parts = {
        "trn": [line(row) for row in range(40)],
        "tst": [line(row) for row in range(100, 120)],
        "lbl": [{"uid": f"{100 + row:04}", "title": f"the {topic}"} for row, topic in enumerate(TOPICS)],
    }
    for name, lines in parts.items():
        with gzip.open(data / f"{name}.json.gz", "wt") as stream:
            stream.writelines(json.dumps(values) + "\n" for values in lines)
    (data / "filter_labels_test.txt").write_text("0 0\n3 5\n")
    for setting, ratio in (("ez", None), ("fs", 0.5)):
        found = run(data, setting, ratio=ratio, methods=["tfidf"], options=Options(runs=folder / "runs"))
        assert all(record.ok for record in found.records), found
