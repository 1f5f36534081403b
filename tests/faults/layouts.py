"""Datasets in every layout, damaged on the way or made by somebody who means harm."""

import gzip
import json
import os
import shutil
from importlib.util import find_spec

import mutators
from kind import Kind, all_of

from xmcbench.data import export, load_dataset
from xmcbench.data.exchange import formats

#: Vocabularies that `export` does not write.
_SKOS = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"


def _short_annif(dataset, folder):
    """TSV, with a SKOS vocabulary."""
    uris = [f"http://a/{uid}" for uid in dataset.labels.uids]
    labels = zip(uris, dataset.labels.titles, strict=True)
    (folder / "vocabulary.ttl").write_text(
        _SKOS + "".join(f'<{uri}> a skos:Concept ; skos:prefLabel "{label}"@en .\n' for uri, label in labels)
    )
    for name, texts, pairs in _sides(dataset):
        rows = zip(texts.titles, pairs, strict=True)
        lines = [f"{text}\t{' '.join(f'<{uris[label]}>' for label in row.indices)}\n" for text, row in rows]
        (folder / f"{name}.tsv").write_text("".join(lines))


def _full_annif(dataset, folder):
    """Full texts with subjects by URI and by label, and a vocabulary in TSV."""
    uids, titles = [*dataset.labels.uids], [*dataset.labels.titles]
    (folder / "vocabulary.tsv").write_text(
        "".join(f"<{uid}>\t{title}\n" for uid, title in zip(uids, titles, strict=True))
    )
    for name, texts, pairs in _sides(dataset):
        (folder / name).mkdir()
        for row in range(4):
            (folder / name / f"{row}.txt").write_text(f"{texts.titles[row]}\n{texts.contents[row]}")
            subjects = pairs[row].indices
            by_uri = "".join(f"<{uids[label]}>\t{titles[label]}\n" for label in subjects)
            by_label = "".join(f"{titles[label]}\n" for label in subjects)
            (folder / name / f"{row}{('.tsv', '.key')[row % 2]}").write_text((by_uri, by_label)[row % 2])


def _llms4subjects(dataset, folder):
    """A file for each record, and the subjects beside the collection."""
    uids, titles = [*dataset.labels.uids], [*dataset.labels.titles]
    subjects = [{"Code": uid, "Name": title} for uid, title in zip(uids, titles, strict=True)]
    (folder / "GND-Subjects-all.json").write_text(json.dumps(subjects))
    for name, texts, pairs in _sides(dataset):
        language = folder / "data" / {"train": "train", "test": "test/gold-standard-testset"}[name] / "Book" / "en"
        language.mkdir(parents=True)
        for row in range(4):
            found = [{"@id": uids[label]} for label in pairs[row].indices]
            record = {"title": texts.titles[row], "abstract": texts.contents[row], "dcterms:subject": found}
            (language / f"{row}.jsonld").write_text(json.dumps({"@graph": [record]}))


def _text2text(dataset, folder):
    for name, texts, pairs in _sides(dataset):
        lines = [f"{','.join(map(str, row.indices))}\t{text}\n" for text, row in zip(texts.titles, pairs, strict=True)]
        (folder / {"train": "training-data.txt", "test": "test-data.txt"}[name]).write_text("".join(lines))
    (folder / "output-labels.txt").write_text("".join(f"{title}\n" for title in dataset.labels.titles))


def _one_table(dataset, folder):
    """A table without a split and without a table of labels."""
    rows = zip(dataset.train.titles, dataset.train_pairs(), strict=True)
    titles = [*dataset.labels.titles]
    lines = [f"{text}\t{';'.join(titles[label] for label in row.indices)}\n" for text, row in rows]
    (folder / "train.tsv").write_text("text\tlabels\n" + "".join(lines))


def _save_to_disk(dataset, folder):
    """Write the files that `save_to_disk` writes."""
    import pyarrow as pa

    features = {"labels": {"feature": {"names": [*dataset.labels.titles]}}}
    noted = {"huggingface": json.dumps({"info": {"features": features}})}
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    for name, texts, pairs in _sides(dataset):
        (folder / name).mkdir()
        (folder / name / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
        columns = {"text": [*texts.titles], "labels": [row.indices.tolist() for row in pairs]}
        table = pa.table(columns).replace_schema_metadata(noted)
        with pa.OSFile(str(folder / name / "data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)


def _sides(dataset):
    yield "train", dataset.train, dataset.train_pairs()
    yield "test", dataset.test, dataset.test_pairs()


BY_HAND = {
    **({"annif short": _short_annif} if find_spec("rdflib") else {}),
    "annif full": _full_annif,
    "llms4subjects": _llms4subjects,
    "text2text": _text2text,
    "one table": _one_table,
    "saved": _save_to_disk,
}


class Layouts(Kind):
    """A file of a dataset in any layout is changed, lost, replaced, or not a file; it is read into an empty cache."""

    full, sample = 10_000, 60

    def setup(self):
        dataset = load_dataset(self.base / "tiny")
        self.places = []
        for name in (*formats(), *BY_HAND):
            place = self.folder / "sets" / name
            if name in BY_HAND:
                place.mkdir(parents=True)
                BY_HAND[name](dataset, place)
            else:
                export(dataset, place, name)
                (place / "card.toml").unlink()  # its sums would find most of the damage
            self.places.append(place)
        os.environ["XMCBENCH_CACHE"] = str(self.folder / "cache")

    def check(self):
        for place in self.places:  # all that is imported is imported before memory is limited
            all_of(load_dataset(place))

    def trial(self, chance):
        good = chance.choice(self.places)
        place = self.folder / "trial" / good.name
        shutil.copytree(good, place)
        try:
            files = sorted(path for path in place.rglob("*") if path.is_file())
            harm(chance.choice(files), files, chance)
            all_of(load_dataset(place))
            return "valid"
        finally:
            shutil.rmtree(self.folder / "trial")
            shutil.rmtree(self.folder / "cache", ignore_errors=True)


def harm(path, files, chance):
    """Do something to a file."""
    kind = chance.random()
    content = path.read_bytes()
    if kind < 0.03:
        path.unlink()
    elif kind < 0.06:
        path.unlink()
        chance.choice((os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: None))(path)
    elif kind < 0.10:
        path.write_bytes(chance.choice(files).read_bytes())
    elif kind < 0.11:
        path.write_bytes(content + b"x" * 100_000_000)
    elif kind < 0.13:
        path.unlink()
        bomb = mutators.gzip_bomb(chance.choice((20, 400)), content[:40])
        path.with_name(path.name.removesuffix(".gz") + ".gz").write_bytes(bomb)
    elif path.suffix == ".npz":
        path.write_bytes(mutators.wild_npz(content, chance))
    elif path.suffix in (".parquet", ".arrow"):
        path.write_bytes(mutators.damage(content, chance))
    elif path.suffix == ".gz":
        path.write_bytes(mutators.wild_gzip(content, chance))
    elif kind < 0.5:
        path.write_bytes(as_elsewhere(content, chance))
    else:
        path.write_bytes(mutators.wild_text(content, chance))


def as_elsewhere(content, chance):
    """A text as other programs write it, or with its rows and columns confused."""
    lines = content.split(b"\n")
    place = chance.randrange(len(lines))
    ways = (
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: content.replace(b"\n", b"\r"),
        lambda: b"\xef\xbb\xbf" + content,
        lambda: content.decode("latin-1").encode("utf-16"),
        lambda: content.replace(b"e", b"\xe9"),
        lambda: content.replace(b" ", b"\0"),
        lambda: b"\n".join(lines[::-1]),
        lambda: b"\n".join([*lines[:place], lines[place], *lines[place:]]),
        lambda: b"\n".join(lines[:1] + lines[2:]),
        lambda: content.replace(b"\t", b" "),
        lambda: content.replace(b'"title"', b'"heading"'),
        lambda: content.replace(b'"uid"', b'"title"'),
        lambda: content.replace(b"text", b"words"),
        lambda: content.replace(b"0", chance.choice((b"-1", b"99999999999", b"1e9", b"[" * 2000))),
        lambda: gzip.compress(content),
    )
    return chance.choice(ways)()
