"""The SemEval-2025 task LLMs4Subjects: records of the library catalog TIBKAT, with subjects of the GND.

The form is that of https://github.com/sciknoworg/llms4subjects, first jd-coderepos/llms4subjects (D'Souza et al.,
SemEval-2025 Task 5, arXiv:2504.07199): ``shared-task-datasets/TIBKAT/README.md`` for the records,
``shared-task-datasets/GND/dataset/GND-Subjects-Schema.json`` for the subjects. As in the task's own evaluation, the
record is the last node of the graph. Its property ``subject`` and the nodes before it, which name its subjects, are not
read: the task says not to use the one, and blind test records lack the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from unicodedata import normalize

from xmcbench.data.sources.records import parse_object, read_records
from xmcbench.data.sources.source import Holding, Part, Place, Row, Source, note_left_out
from xmcbench.data.text_files import at, find_source, read_document, suffix_of
from xmcbench.errors import DataError

#: Below the folder of a split: TYPE/LANGUAGE/ID.jsonld.
_RECORDS = "*/*/*.jsonld*"
_GOLD = "test/gold-standard-testset"
_TITLE, _ABSTRACT, _SUBJECTS = "title", "abstract", "dcterms:subject"


class LLMs4Subjects(Source):
    """A collection of TIBKAT, ``all-subjects`` or ``tib-core-subjects``, with ``data/train``, ``data/dev`` and
    ``data/test/gold-standard-testset``; without that one, ``dev`` is the test set.

    A record is an instance: its title, its abstract as the content, and its path in the split without the suffix
    (``Book/de/3A024101699``) as the uid. Labels are the subjects of ``GND-Subjects-all.json`` or, for
    ``tib-core-subjects``, of ``GND-Subjects-tib-core.json``, by name in composed letters (NFC), as TIBKAT has them. The
    file is in the folder of the collection, or in ``../../GND/dataset`` as in the repository. Subjects that are not in
    it are left out. Read-only.
    """

    name = "llms4subjects"
    title = "LLMs4Subjects: data/train, data/dev and data/test with records of TIBKAT (.jsonld), GND-Subjects-all.json"
    options = frozenset({"vocabulary"})

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return next(place.path.glob(f"data/train/{_RECORDS}"), None) is not None

    def find_parts(self) -> Holding:
        given, folder = self.place.options.get("vocabulary"), self.place.path.resolve()
        name = given or f"GND-Subjects-{'tib-core' if folder.name == 'tib-core-subjects' else 'all'}.json"
        repository = folder.parent.parent / "GND" / "dataset"
        path = self.place.path / given if given else find_source(folder, name) or find_source(repository, name)
        if path is None or not path.is_file():
            hint = "it is in shared-task-datasets/GND/dataset of the task; or name a file: vocabulary=FILE"
            raise DataError(f"{self.place.path} has no {name}", hint)
        data = self.place.path / "data"
        train, dev, gold = (_part(data / split, path) for split in ("train", "dev", _GOLD))
        if train is None:
            raise DataError(f"{data} has no train", "expected records, as train/Book/de/3A024101699.jsonld")
        note = "dev is not used" if gold else f"dev is the test set: there is no {_GOLD}"
        labels = Part("labels", path, (path,), partial(_labels, path))
        return Holding(labels, train, gold or dev, (note,) if dev else ())


def _part(folder: Path, subjects: Path) -> Part | None:
    files = sorted(path for path in folder.glob(_RECORDS) if suffix_of(path) == ".jsonld")
    notes: list[str] = []
    rows = partial(_instances, folder, files, subjects, notes)
    return Part("instances", folder, (*files, subjects), rows, notes) if files else None


def _labels(path: Path) -> Iterator[Row]:
    for record in read_records((path,)):
        name = record.text("Name", required=True)
        if not name.strip():
            raise record.error("the subject has no name", "every label needs a text")
        yield Row(path, record.line, record.text("Code", required=True), normalize("NFC", name))


def _instances(folder: Path, files: Sequence[Path], subjects: Path, notes: list[str]) -> Iterator[Row]:
    ids = {label.uid: row for row, label in enumerate(_labels(subjects))}
    unknown = 0
    for path in files:
        title, abstract, codes = _read_record(path)
        found = [ids[code] for code in codes if code in ids]
        unknown += len(codes) - len(found)
        uid = path.relative_to(folder).as_posix().removesuffix(".gz").removesuffix(".jsonld")
        yield Row(path, 1, uid, title, abstract, found)
    note_left_out(notes, unknown, "subject", folder, f"not in {subjects.name}")


def _read_record(path: Path) -> tuple[str, str, list[str]]:
    """Read title, abstract and codes of subjects. Raises DataError for a file that is no record."""
    graph = parse_object(path, 1, read_document(path)).get("@graph")
    node = graph[-1] if isinstance(graph, list) and graph else None
    if not isinstance(node, dict) or _TITLE not in node:
        raise at(path, 1, "is not a record of TIBKAT", "expected JSON-LD; the last node of @graph has the title")
    values = {key: node.get(key) for key in (_TITLE, _ABSTRACT, _SUBJECTS)}
    lists = {
        # JSON-LD writes a list of one as its value.
        key: value if isinstance(value, list) else [] if value is None else [value]
        for key, value in values.items()
    }
    for key in (_TITLE, _ABSTRACT):
        if not all(isinstance(value, str) for value in lists[key]):
            raise at(path, 1, f"a value of {key} is not a text", "expected a string or a list of strings")
    subjects = [subject.get("@id") if isinstance(subject, dict) else None for subject in lists[_SUBJECTS]]
    codes = [code for code in subjects if isinstance(code, str)]
    if len(codes) < len(subjects):
        raise at(path, 1, f"a value of {_SUBJECTS} has no @id", 'expected {"@id": "gnd:4053474-1"}')
    return " ".join(lists[_TITLE]), " ".join(lists[_ABSTRACT]), codes
