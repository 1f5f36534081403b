"""Make train.csv and vocabulary.ttl from the foods of WordNet 3.0.

    apt-get download wordnet-base
    dpkg-deb --extract wordnet-base_*.deb wordnet
    python make_foods.py wordnet/usr/share/wordnet/data.noun

A concept is a synset of foods that is the direct hypernym of another one: its first word is the preferred label, the
others are alternative ones. A document is a synset of foods that is no concept and has a concept as a hypernym, which
is its subject: its words and its gloss.

Format: wndb(5WN), which the package contains.
"""

import csv
import json
import re
import sys
from pathlib import Path

FOODS = "13"
BASE = "https://wordnet.princeton.edu/3.0/n"


def main(nouns: Path, out: Path) -> None:
    """Write both files. nouns: data.noun of WordNet 3.0."""
    synsets = {}
    for line in nouns.read_text(encoding="utf-8").splitlines():
        offset, file, *fields = line.partition(" | ")[0].split(" ")
        if file == FOODS:
            synsets[offset] = (fields, line.partition(" | ")[2].strip())
    broader = {
        offset: [up for up in find_hypernyms(fields) if up in synsets] for offset, (fields, _) in synsets.items()
    }
    concepts = {up for ups in broader.values() for up in ups}
    with (out / "train.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("document_id", "text", "subject_uris"))
        for offset, (fields, gloss) in synsets.items():
            if offset not in concepts and broader[offset]:
                uris = " ".join(f"<{BASE}{up}>" for up in broader[offset])
                table.writerow((f"n{offset}", f"{', '.join(find_words(fields))}: {gloss}", uris))
    with (out / "vocabulary.ttl").open("w", encoding="utf-8") as file:
        file.write("@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n")
        for offset in sorted(concepts):
            fields, gloss = synsets[offset]
            name, *others = find_words(fields)
            definition = re.split(r'; "', gloss)[0]
            facts = [f"skos:prefLabel {quote(name)}", *(f"skos:altLabel {quote(other)}" for other in others)]
            facts += [f"skos:definition {quote(definition)}", *(f"skos:broader <{BASE}{up}>" for up in broader[offset])]
            file.write(f"\n<{BASE}{offset}> a skos:Concept ;\n    " + " ;\n    ".join(facts) + " .\n")


def find_words(fields: list[str]) -> list[str]:
    """Return the words of a synset. fields: what follows its file: type, word_count, (word, lex_id)..."""
    return [word.replace("_", " ") for word in fields[2 : 2 + 2 * int(fields[1], 16) : 2]]


def find_hypernyms(fields: list[str]) -> list[str]:
    """Return the offsets of the hypernyms of a synset: pointer_count, (symbol, offset, type, source)..."""
    pointers = fields[3 + 2 * int(fields[1], 16) :]
    return [pointers[i + 1] for i in range(0, len(pointers) - 3, 4) if pointers[i] in {"@", "@i"}]


def quote(text: str) -> str:
    """Return a literal of Turtle in English."""
    return f"{json.dumps(text, ensure_ascii=False)}@en"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent)
