"""Pages of the documentation that are made from the code, so that they cannot disagree with it.

A hook of mkdocs: it adds the references of commands, methods and API, the metric protocol, and the pages that are files
at the root of the project.
"""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import xmcbench
from xmcbench.command.main import VERBS, parser
from xmcbench.metrics import protocol
from xmcbench.plugins.registry import Registry

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {
        "index.md": _readme(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "tutorial.md": _tutorial(),
        "commands.md": _commands(),
        "methods.md": _methods(),
        "api.md": _api(),
        "protocol.md": _protocol(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def _readme() -> str:
    """The README, with links into the repository as plain text: the site does not hold those files."""
    text = (ROOT / "README.md").read_text()
    text = re.sub(r"!\[([^]]*)\]\((?!https?://)[^)]*\)", r"", text)
    return re.sub(r"\[([^]]+)\]\((?!https?://|#)[^)]*\)", r"\1", text)


def _tutorial() -> str:
    """The sections of CONTRIBUTING.md on adding a method and a dataset, whose code blocks a test runs."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    chosen = [part for part in parts if part.startswith(("Add a method", "Add a dataset"))]
    body = "## " + "## ".join(chosen)
    return "# Tutorial\n\n" + re.sub(r"\[([^]]+)\]\((?!https?://|#)[^)]*\)", r"\1", body)


def _commands() -> str:
    parts = ["# Commands\n"]
    top = parser()
    for verb in VERBS:
        parts.append(f"## xmcbench {verb}\n\n```text\n{_help(top.below(verb))}\n```\n")
    return "\n".join(parts)


def _help(of: argparse.ArgumentParser) -> str:
    return of.format_help().rstrip()


def _methods() -> str:
    parts = ["# Methods\n"]
    for entry in Registry():
        method = entry.description
        if method is None:
            continue
        parts.append(f"## {entry.title} {{ #{entry.name} }}\n\n{method.doc}\n")
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
                parts.append(f"Chosen by `{method.choices[preset]}`.")
        parts.append("")
    return "\n".join(parts)


def _api() -> str:
    parts = ["# Python API\n", "Everything below is a name of the package `xmcbench`.\n"]
    for name in xmcbench.__all__:
        thing = getattr(xmcbench, name)
        try:
            signature = re.sub(r"'([^']*)'", r"\1", str(inspect.signature(thing)))
        except (TypeError, ValueError):
            signature = ""
        kind = "class " if inspect.isclass(thing) else ""
        parts.append(f"## {name}\n\n```python\n{kind}{name}{signature}\n```\n\n{inspect.getdoc(thing) or ''}\n")
        if inspect.isclass(thing):
            members = [
                (member, value)
                for member, value in vars(thing).items()
                if not member.startswith("_") and inspect.getdoc(value) and callable(getattr(value, "__func__", value))
            ]
            parts += [f"* `{member}`: {(inspect.getdoc(value) or '').splitlines()[0]}" for member, value in members]
            parts.append("")
    return "\n".join(parts)


def _protocol() -> str:
    return f"# Metric protocol\n\n{inspect.getdoc(protocol)}\n"
