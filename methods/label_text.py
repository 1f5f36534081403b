"""The text of a label as a method reads it: its title, or also what else it carries.

The title is the title of the text, and the rest its content, so that a text reads ``title<TAB>alternative; alternative;
title of a parent; content``.
"""

from __future__ import annotations

from itertools import chain
from typing import Literal

from xmcbench import Doc, LabelTexts, Texts, UsageError

LabelPart = Literal["title", "alternatives", "content", "parents", "all"]

#: Declaration of the parameter, for every method that has it. It is newer than results of these methods.
LABEL_TEXT = Doc(
    "what of a label is read: its title; alternatives: its other names too; content: its definition or description "
    "too; parents: the titles of the broader labels too; all: whatever the dataset has of these",
    added=True,
)

_PARTS = ("alternatives", "content", "parents")
_JOINT = "; "


def read_labels(raw_Y: Texts, part: LabelPart) -> Texts:
    """Return the texts of labels as a method reads them. Raises UsageError for labels that have no such part."""
    if part == "title":
        return raw_Y.titles_only() if isinstance(raw_Y, LabelTexts) else raw_Y
    carried = {name.replace("description", "content") for name in getattr(raw_Y, "details", ())}
    read = [name for name in _PARTS if name in carried and part in (name, "all")]
    if not isinstance(raw_Y, LabelTexts) or not read:
        wanted = "nothing besides their titles" if part == "all" else f"no {part}"
        known = f"they have {', '.join(sorted(carried))}" if carried else "SKOS, labels.csv and lbl.json can have them"
        raise UsageError(f"label_text={part}: the labels of this dataset have {wanted}", f"{known}; label_text=title")
    columns = []
    if "alternatives" in read:
        columns.append(iter(raw_Y.alternatives))
    if "parents" in read:
        titles = dict(zip(raw_Y.uids, raw_Y.titles, strict=True))
        columns.append(tuple(titles[uid] for uid in uids if uid in titles) for uids in raw_Y.parents)
    if "content" in read:
        columns.append((content,) if content else () for content in raw_Y.contents)
    contents = [_JOINT.join(chain(*cells)) for cells in zip(*columns, strict=True)]
    return Texts.from_lists(list(raw_Y.titles), contents, list(raw_Y.uids))
