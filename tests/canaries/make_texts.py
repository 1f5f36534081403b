# ruff: noqa: RUF001 - other scripts have letters that look like ours
"""Draw the texts of the canaries out of LF-Debian-20K: frequent labels, instances that have several, and awkward texts.

    python tests/canaries/make_texts.py datasets/lf-debian-20k leaderboards/canaries/texts.json

Drawn once. Contents are cut after 240 letters. Some instances are labels too. The awkward texts, ``AWKWARD`` and
``LABELS``, are added at places that are spread over the others, so that no method meets them last. Every sixth training
instance loses its pairs.
"""

import gzip
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

TRAIN, TEST, OWN, KEPT, LETTERS, MOST = 216, 40, 16, 104, 240, 4

LONG = " ".join(
    f"Chapter {number} of the manual explains how option {number % 7} of the tool {'abcdefg'[number % 7]} is used."
    for number in range(1, 60)
)
#: Uid, title, content, and the uids of labels.
AWKWARD = [
    ("empty-content", "emacs editor without any description", "", ["emacs"]),
    ("empty", "", "", []),
    ("blank-title", " ", "A content under a title of one space. It is about the editor emacs.", ["emacs"]),
    ("word", "wget", "wget", ["wget"]),
    ("signs", "--- *** ---", "!!! ... ???", []),
    ("long", "The long manual", LONG, ["doc-base", "make"]),
    ("german", "Wörterbücher für Übersetzer", "Große Straßen. Ärzte, Öl & Überfluß! Die Häuser der Bücher.", ["dictd"]),
    ("french", "Éditeur d'images", "L'œuvre dépasse les espérances. Où est-ce? À côté: naïve façade.", ["gimp"]),
    ("chinese", "图像处理程序", "这是一个图像编辑器。它可以打开照片！支持多种格式。", ["gimp", "imagemagick"]),
    ("japanese", "画像を編集するソフト", "写真を開きます。とても便利です。日本語の説明。", ["gimp"]),
    ("arabic", "قاموس عربي", "هذا قاموس. هل يعمل؟ نعم، يعمل.", ["goldendict", "dict"]),
    ("hindi", "हिन्दी शब्दकोश", "यह एक शब्दकोश है। इसमें बहुत शब्द हैं।", ["dict"]),
    ("russian", "Словарь русского языка", "Программа читает словари. Она бесплатна!", ["goldendict"]),
    ("greek", "Λεξικό ΕΛΛΗΝΙΚΟΣ", "Το λεξικό είναι δωρεάν. Οι λέξεις είναι πολλές.", ["dict"]),
    ("turkish", "İstanbul rehberi", "ILIK çay içilir. Şehirde kedi çoktur.", []),
    (
        "emoji",
        "fonts 😀 for 👩‍👩‍👧 emoji",
        "Shows 😀😀. Combining e\u0301 and ﬁ ligatures, ½ and Ⅷ, 𝐛𝐨𝐥𝐝.",
        ["ghostscript"],
    ),
    ("repeated", "graph drawing", "The graph drawing tools. More graph drawing for all. It draws.", ["graphviz"]),
    ("again", "a web browser", "It is a web browser. You can use a web browser to read. Fast.", ["firefox-esr"]),
    (
        "copy",
        "a web browser",
        "It is a web browser. You can use a web browser to read. Fast.",
        ["firefox-esr", "xdg-utils"],
    ),
    ("abbreviations", "Dr. Smith et al.", "Mr. Brown wrote e.g. this, i.e. that. See p. 5 of vol. 2. It ends.", []),
    ("numbers", "2 + 2 = 4", "1.5 2.25 3.125. 10,000 lines; 100% of 64-bit x86_64 CPUs.", ["perl"]),
    ("underscores", "snake_case_names and camelCase", "foo_bar __init__ a_b_c. C++ C# .NET, node.js!", ["python3"]),
]
#: Awkward texts among the test instances too.
TESTED = ("empty", "word", "signs", "long", "chinese", "hindi", "emoji", "again", "empty-content")
#: Labels that are awkward, by title: equal ones, signs, other scripts, none.
LABELS = [
    "GIMP - GNU Image Manipulation Program",
    "wget - retrieves files from the web",
    "wget - retrieves files from the web",
    "a web browser",
    "",
    "???",
    "字典 词典",
    "Wörterbuch",
    "dictionary",
    "dictionary dictionary dictionary",
    "शब्दकोश",
    "graph drawing",
]


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def shorten(text):
    return text if len(text) <= LETTERS else text[:LETTERS].rsplit(" ", 1)[0]


def spread(common, rare):
    """The rare ones among the common ones, at equal distances."""
    mixed, every = list(common), len(common) // len(rare)
    for place, item in enumerate(rare):
        mixed.insert(place * (every + 1), item)
    return mixed


def main(source, file):
    train, test, labels = (read(source / f"{name}.json.gz") for name in ("trn", "tst", "lbl"))
    number = {label["uid"]: place for place, label in enumerate(labels)}
    count = np.bincount([label for row in train for label in row["target_ind"]], minlength=len(labels))
    wanted = [number[uid] for *_, uids in AWKWARD for uid in uids]
    kept = dict.fromkeys([*wanted, *np.argsort(-count, kind="stable").tolist()[:2000]])
    random = np.random.RandomState(0)

    def draw(side, many, chosen):
        """Rows with some of the chosen labels, no label in many of them."""
        found, met = [], Counter()
        for row in random.permutation(len(side)).tolist():
            own = {*side[row]["target_ind"]} & chosen
            if len(found) < many and len(side[row]["content"]) > 80 and any(met[label] < MOST for label in own):
                found.append(row)
                met.update(own)
        return sorted(found)

    # Labels of the drawn test instances first: each has two at least.
    frequent = {*list(kept)[:400]}
    tests = draw(
        [instance if instance["uid"] in number else {"target_ind": [], "content": ""} for instance in test],
        14,
        frequent,
    )
    tests = sorted({*tests, *draw(test, TEST - len(tests), frequent)})
    own = [number[test[row]["uid"]] for row in tests if test[row]["uid"] in number]
    true = [label for row in tests for label in test[row]["target_ind"] if label in frequent]
    trained = [instance if instance["uid"] in number else {"target_ind": [], "content": ""} for instance in train]
    own += [number[train[row]["uid"]] for row in draw(trained, OWN, {*wanted, *true})]
    names = sorted([*dict.fromkeys([*wanted, *own, *true, *kept])][:KEPT])
    trains = draw(train, TRAIN, {*names})

    listed = [{"uid": labels[label]["uid"], "title": labels[label]["title"]} for label in names]
    listed = spread(listed, [{"uid": f"label-{place}", "title": title} for place, title in enumerate(LABELS)])
    place = {label["uid"]: at for at, label in enumerate(listed)}

    def row(uid, title, content, uids):
        return {
            "uid": uid,
            "title": title,
            "content": content,
            "labels": sorted(place[label_uid] for label_uid in uids),
        }

    def rows(side, chosen):
        for at in chosen:
            instance = side[at]
            uids = [labels[label]["uid"] for label in instance["target_ind"] if labels[label]["uid"] in place]
            yield row(instance["uid"], instance["title"], shorten(instance["content"]), uids)

    awkward = [row(*values) for values in AWKWARD]
    instances = spread([*rows(train, trains)], awkward)
    for without in instances[5::6]:
        without["labels"] = []
    tested = [
        instance | {"uid": f"test-{instance['uid']}"} for instance in map(dict, awkward) if instance["uid"] in TESTED
    ]
    whole = {"train": instances, "labels": listed, "test": spread([*rows(test, tests)], tested)}
    # A line for each text.
    parts = [
        f" {json.dumps(name)}: [\n  " + ",\n  ".join(json.dumps(text, ensure_ascii=False) for text in side) + "\n ]"
        for name, side in whole.items()
    ]
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
