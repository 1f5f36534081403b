"""A text file with one document per line: documents to suggest labels for, not a dataset."""

from __future__ import annotations

from collections.abc import Iterator

from xmcbench.data.compression import suffix_of
from xmcbench.data.rows import Row, batched
from xmcbench.data.sources.source import Holding, Part, Place, Source
from xmcbench.data.sources.text_lines import read_lines
from xmcbench.data.sources.writing import parted
from xmcbench.errors import DataError


class PlainText(Source):
    """A ``.txt`` file. What is before the first tab of a line is the title, the rest is the content."""

    name = "text"
    title = "documents without labels: a .txt file with one document per line (for `xmcbench suggest`)"

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.path.is_file() and suffix_of(place.path) == ".txt"

    def holding(self) -> Holding:
        raise DataError(f"{self.place.path} has no labels", "a dataset needs label texts: see `xmcbench ls layouts`")

    def documents(self) -> Part:
        def rows() -> Iterator[Row]:
            for row, text in enumerate(read_lines(self.place.path)):
                yield str(row), *parted(text), ()

        return Part("documents", self.place.path, (self.place.path,), lambda: batched(rows()))
