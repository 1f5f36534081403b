"""Pages of the documentation that are made from the code, so that they cannot disagree with it.

A hook of mkdocs: it adds the references of commands, methods and API, the metric protocol, and the pages that are files
at the root of the project.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xmcbench
from xmcbench.command.main import VERBS, Parser, parser
from xmcbench.metrics import protocol
from xmcbench.plugins.registry import Registry

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
#: Characters in a line of help, whatever the width of the terminal is.
_WIDTH = 100


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A page of docs/ with links that leave the folder as plain text, followed by the path."""
    return re.sub(r"\[([^]]+)\]\(\.\./([^)]*)\)", r"\1 (`\2`)", markdown)


def pages() -> dict[str, str]:
    """Name -> Markdown of every generated page."""
    return {
        "index.md": _readme(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "tutorial.md": _tutorial(),
        "commands.md": _commands(),
        "methods.md": _methods(),
        "api.md": _api(),
        "protocol.md": _protocol(),
    }


def _readme() -> str:
    """The README as a page, without its charts."""
    text = (ROOT / "README.md").read_text()
    return _as_page(re.sub(r"!\[([^]]*)\]\((?!https?://)[^)]*\)", r"", text))


def _as_page(text: str) -> str:
    """Text of the repository's root, with links to pages of docs/ as they are there.

    Other links into the repository become plain text: the site does not hold those files.
    """
    held = {path.name for path in (ROOT / "docs").glob("*.md")}

    def link(found: re.Match[str]) -> str:
        name, target = found.groups()
        if target.startswith(("http://", "https://", "#")):
            return found[0]
        within = target.removeprefix("docs/")
        return f"[{name}]({within})" if within.partition("#")[0] in held else name

    return re.sub(r"\[([^]]+)\]\(([^)]*)\)", link, text)


def _tutorial() -> str:
    """The sections of CONTRIBUTING.md on adding a method and a dataset, whose code blocks a test runs."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    chosen = [part for part in parts if part.startswith(("Add a method", "Add a dataset"))]
    body = "## " + "## ".join(chosen)
    return "# Tutorial\n\n" + _as_page(body)


def _commands() -> str:
    parts = ["# Commands\n"]
    top = parser()
    for verb in VERBS:
        below = top.below(verb)
        parts.append(f"## xmcbench {verb}\n\n{_help(below)}\n")
        parts += [f"### xmcbench {verb} {name}\n\n{_help(each)}\n" for name, each in below.commands().items()]
    return "\n".join(parts)


def _help(of: Parser) -> str:
    of.formatter_class = partial(of.formatter_class, width=_WIDTH)  # type: ignore[assignment]
    return f"```text\n{of.format_help().rstrip()}\n```"


def _methods() -> str:
    parts = ["# Methods\n"]
    for entry in Registry():
        method = entry.description
        if method is None:
            continue
        parts.append(f"## {entry.title} {{ #{entry.name} }}\n\n{_markdown(method.doc)}\n")
        parts.append(f"Name on the command line: `{entry.name}`. Pairs: {method.supervision}.\n")
        parts.append("| parameter | type | range | default | meaning |\n|---|---|---|---|---|")
        for name, each in method.parameters.items():
            said = each.doc.text + (f" [{each.doc.source}]" if each.doc.source else "")
            unit = f" ({each.unit})" if each.unit else ""
            kind = each.type_name.replace("|", "\\|")
            parts.append(f"| `{name}` | {kind}{unit} | {each.range} | `{each.default}` | {said} |")
        for preset, values in method.presets.items():
            chosen = ", ".join(f"`{name}={value}`" for name, value in values.items()) or "the defaults"
            parts.append(f"\nPreset `{preset}`: {chosen}.")
            if preset in method.choices:
                parts.append(f"Values of {preset} come from:{_origin(method.choices[preset])}")
        parts.append("")
    return "\n".join(parts)


def _origin(text: str) -> str:
    """Where the values of a preset come from: a sentence, or the commands by which they were chosen."""
    return f"\n\n```text\n{text}\n```" if text.startswith("xmcbench ") else f" {text}."


def _api() -> str:
    parts = ["# Python API\n", "Everything below is a name of the package `xmcbench`.\n"]
    for name in xmcbench.__all__:
        thing = getattr(xmcbench, name)
        kind = "class " if inspect.isclass(thing) else ""
        doc = _markdown(inspect.getdoc(thing) or "")
        parts.append(f"## {name}\n\n```python\n{kind}{name}{_signature(thing)}\n```\n\n{doc}\n")
        if inspect.isclass(thing):
            members = [
                (member, value)
                for member, value in vars(thing).items()
                if not member.startswith("_") and inspect.getdoc(value) and callable(getattr(value, "__func__", value))
            ]
            parts += [f"* `{member}`: {(inspect.getdoc(value) or '').splitlines()[0]}" for member, value in members]
            parts.append("")
    return "\n".join(parts)


class _Source(str):
    """Text that is printed as it is, where a signature would print the repr of an object."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(thing: object) -> str:
    """The signature of a function or class, with annotations as they are in the source; empty for other objects."""
    if not callable(thing):
        return ""
    try:
        found = inspect.signature(thing)
    except ValueError:
        return ""
    parameters = [
        each.replace(annotation=_annotation(each.annotation), default=_default(each.default))
        for each in found.parameters.values()
    ]
    returns = inspect.Signature.empty if inspect.isclass(thing) else _annotation(found.return_annotation)
    return str(found.replace(parameters=parameters, return_annotation=returns))


def _annotation(given: object) -> object:
    return _Source(given) if isinstance(given, str) else given


def _default(given: object) -> object:
    """A default value as an expression; ``...`` if its repr is not one, as that of a function."""
    if given is inspect.Parameter.empty:
        return given
    try:
        ast.parse(repr(given), mode="eval")
    except SyntaxError:
        return _Source("...")
    return _Source(repr(given))


def _markdown(doc: str) -> str:
    """A docstring as Markdown: tables of names and meanings, which are aligned by spaces, become code blocks."""
    blocks = doc.split("\n\n")
    return "\n\n".join(_code_block(each) if re.match(r"\w+ {2,}\S", each) else each for each in blocks)


def _code_block(text: str) -> str:
    return textwrap.indent(text.replace("``", "`"), "    ")


def _protocol() -> str:
    return f"# Metric protocol\n\n{_markdown(inspect.getdoc(protocol) or '')}\n"
