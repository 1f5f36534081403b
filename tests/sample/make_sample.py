"""Cut the dataset of this folder out of LF-Debian-20K: a few hundred instances, items that are labels, and a filter.

    python tests/sample/make_sample.py datasets/lf-debian-20k tests/sample

Its test instances are labels too, but for some; three have no label at all. Contents are cut after 160 letters. The
filter file names, for each test instance, itself and the labels that are known to be related to it the other way round:
that is more than the instances alone, and some of them are true labels.
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np

from xmcbench.data.sources.xc_raw import write_instances, write_labels

TRAIN, OWN, OTHERS, LABELS, LETTERS = 260, 90, 20, 180, 160


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def shorten(text):
    return text if len(text) <= LETTERS else text[:LETTERS].rsplit(" ", 1)[0]


def main(source, folder):
    train, test, labels = (read(source / f"{name}.json.gz") for name in ("trn", "tst", "lbl"))
    own = {label["uid"]: number for number, label in enumerate(labels)}
    count = np.bincount([label for row in (*train, *test) for label in row["target_ind"]], minlength=len(labels))
    random = np.random.RandomState(0)
    order, tests, kept = random.permutation(len(test)).tolist(), [], set()
    for row in order:
        frequent = [label for label in test[row]["target_ind"] if count[label] >= 3]
        if test[row]["uid"] in own and frequent and len(tests) < OWN:
            tests.append(row)
            kept |= {*frequent, own[test[row]["uid"]]}
    kept |= {*np.argsort(-count, kind="stable")[: max(0, LABELS - len(kept))].tolist()}
    related = [row for row in order if test[row]["uid"] not in own and {*test[row]["target_ind"]} & kept]
    unrelated = [row for row in order if not {*test[row]["target_ind"]} & kept]
    tests = sorted([*tests, *related[:OTHERS], *unrelated[:3]])
    trained = [row for row in random.permutation(len(train)).tolist() if {*train[row]["target_ind"]} & kept]
    names = sorted(kept)
    number = {label: place for place, label in enumerate(names)}

    def rows(side, chosen):
        for row in chosen:
            targets = sorted(number[label] for label in side[row]["target_ind"] if label in number)
            yield side[row]["uid"], side[row]["title"], shorten(side[row]["content"]), targets

    write_labels(folder / "lbl.json.gz", [(labels[label]["uid"], labels[label]["title"]) for label in names])
    write_instances(folder / "trn.json.gz", rows(train, sorted(trained[:TRAIN])))
    write_instances(folder / "tst.json.gz", rows(test, tests))
    targets = {instance["uid"]: {*instance["target_ind"]} for instance in (*train, *test)}
    with (folder / "filter_labels_test.txt").open("w") as stream:
        for place, row in enumerate(tests):
            item = own.get(test[row]["uid"])
            removed = [label for label in names if label == item or item in targets.get(labels[label]["uid"], ())]
            stream.writelines(f"{place} {number[label]}\n" for label in removed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
