"""Text from other sources, made inert: one function per target.

Names, reasons and notes reach us from cards, records, plug-ins and the machine itself. Nothing in them may act: no
control character or escape sequence in a terminal, no mark that reverses the direction of what follows (Unicode
Technical Report 36, section 2.5), no tag or link in Markdown, no command in LaTeX, no formula in a spreadsheet.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable
from csv import writer
from html import escape
from json import dumps

#: Categories of invisible characters that have an effect: control, format, surrogate, private, unassigned,
#: and the separators of lines and paragraphs.
_ACTIVE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

#: Signs with a meaning in Markdown and the HTML in it. An underscore inside a word has none.
#: GitHub also makes formulas of text between dollars. An address is shown unchanged, with a link to itself.
_MARKDOWN = re.compile(r"[\\`*\[\]<>|~$]|(?<![^\W_])_|_(?![^\W_])")
#: The place before the sign that makes a line an item of a list, a heading, or the line under one.
_BLOCK = re.compile(r" *(?:\d{1,9}(?=[.)](?: |$))|(?=(?:[-+]|#{1,6})(?: |$)|(?:=+|-+) *$))")
#: A reference such as ``&lt;`` would be shown as the character it stands for.
_REFERENCE = re.compile(r"&(?=#?\w+;)")

_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "√": r"$\surd$",
    "¹": r"$^1$",
    "²": r"$^2$",
    "≤": r"$\leq$",
    "≈": r"$\approx$",
}

#: The beginning of a formula in a spreadsheet, which removes quotation marks before it; full width signs count, too.
_FORMULA = re.compile(r"[ \"]*[=+\-@\uff1d\uff0b\uff0d\uff20]")

#: Characters that act in a text of any language: controls, marks that change the direction of the text, and
#: surrogates, which no file can hold. Joiners and soft hyphens belong to the text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def is_active(character: str) -> bool:
    """Return whether a character has an effect on a display, or cannot be shown."""
    return not character.isprintable() and unicodedata.category(character) in _ACTIVE


def visible(text: str) -> str:
    r"""Spell out every character that would act: ESC becomes ``\x1b``. Line breaks and tabs are spaces.

    This alone makes text inert for a terminal, a log and JSON; the other targets build on it.
    """
    if text.isprintable():
        return text
    return "".join(_spell(character) if is_active(character) else character for character in text)


def _spell(character: str) -> str:
    if character in "\t\n\r\f\v\u2028\u2029\x85":
        return " "
    return character.encode("unicode_escape").decode()


def terminal(text: str) -> str:
    """Return text for a terminal, which may have several lines: the line breaks stay."""
    return "\n".join(map(visible, text.split("\n")))


def markdown(text: str) -> str:
    """Return text inside a line of Markdown: nothing in it is a tag, a link or the border of a column."""
    return _REFERENCE.sub("&amp;", _MARKDOWN.sub(r"\\\g<0>", visible(text)))


def markdown_line(text: str) -> str:
    """Return text at the beginning of a line of Markdown: nothing in it is a heading or a list either."""
    shown = markdown(text)
    block = _BLOCK.match(shown)
    return f"{shown[: block.end()]}\\{shown[block.end() :]}" if block else shown


def latex(text: str) -> str:
    """Return text for LaTeX."""
    made = "".join(_LATEX.get(sign, sign) for sign in visible(text))
    return re.sub("-(?=-)", "-{}", made)  # two hyphens, as of an option, would be a dash


def latex_line(text: str) -> str:
    """Return text at the beginning of a line of a table in LaTeX: nothing in it is an option of the line before."""
    return "{}" * text.startswith(("[", "*")) + latex(text)


def svg(text: str) -> str:
    """Return text for an element of an SVG drawing: markup is escaped, and what XML cannot hold is spelled out."""
    return escape(visible(text), quote=False)


def html(text: str) -> str:
    """Return text for an element or a quoted attribute of an HTML page: nothing in it is a tag or a reference."""
    return escape(visible(text), quote=True)


def csv(text: str) -> str:
    """Return text for a field of a CSV file: never a formula of a spreadsheet. Numbers stay numbers."""
    return _no_formula(visible(text))


def tsv(text: str) -> str:
    """Return text of a dataset for a field of a TSV file: never a formula, and only controls are spelled out."""
    return _no_formula(_CONTROL.sub(lambda found: _spell(found[0]), text))


def _no_formula(text: str) -> str:
    if not _FORMULA.match(text):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def csv_file(lines: Iterable[Iterable[object]]) -> str:
    """Return lines of fields as a CSV file, in which no field is a formula; None is an empty field."""
    stream = io.StringIO()
    made = writer(stream, lineterminator="\n")
    made.writerows(["" if field is None else csv(str(field)) for field in line] for line in lines)
    return stream.getvalue()


def json(document: object) -> str:
    """Return a JSON document in which letters are not escaped, but characters that would act are."""
    text = dumps(document, indent=1, ensure_ascii=False)
    return "".join(dumps(sign)[1:-1] if sign != "\n" and is_active(sign) else sign for sign in text)


#: Letters of other scripts that look like Latin ones: the part of Unicode's confusables (UTS 39) that its lower-case
#: Cyrillic and Greek letters make up, after case folding.
_CONFUSABLE = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d"
    "\u03b1\u03b2\u03b5\u03b6\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7"
    "\u0131\u0142\u00f8\u0261\u0269\u028f\u1d04\u1d0f"
    "015|",
    "abekmhopctyxsijhdqwabeznikmvoptyxilogiycoolsl",
)


def skeleton(text: str) -> str:
    """Return a form of a name in which names that look alike are equal.

    The rule: compatibility characters are replaced by plain ones (NFKC), case is folded, accents are dropped, Cyrillic
    and Greek letters and the digits 0, 1 and 5 become the Latin letters that they look like, and of the rest only
    letters and digits count.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(sign))
    return "".join(sign for sign in plain.translate(_CONFUSABLE) if sign.isalnum())
