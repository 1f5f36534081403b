"""Pages of the documentation that are made from the code, so that they cannot disagree with it.

A hook of mkdocs: it adds the references of commands, methods, API, layouts and records, the metric protocol, and the
pages that are files at the root of the project.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import xmcbench
from xmcbench.analysis.scale import Rates
from xmcbench.command.main import VERBS, Parser, parser
from xmcbench.data.catalog import find
from xmcbench.data.exchange import formats
from xmcbench.data.sources.finding import COMMON, layouts
from xmcbench.metrics import protocol
from xmcbench.output.layout import in_markdown
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store, record
from xmcbench.runner.rows import Request, resolve
from xmcbench.setting import Setting

if TYPE_CHECKING:
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
#: Folder of the charts that pages at the root show.
_FIGURES = "leaderboards/figures/"
#: The datasets of MACLR's paper (Table 1), and the presets whose cost on them a page has.
_PAPER = ("lf-amazon-131k", "lf-wikiseealso-320k", "lf-wikipedia-500k", "lf-amazon-1m")
_PRESETS = ("quick", "small", "hour", "gpu", "paper")
_SCALE = """# What runs of the paper's size cost

The four datasets of the paper are not part of xmcbench. Before any of their data is here, a dry run says what a run
would cost, by the counts of their cards:

    xmcbench run --dataset lf-amazon-131k --setting ez --methods all --preset paper --dry-run

The tables have what it prints. Times are for one seed, without loading and scoring. They are estimates, from the times
of the records in `leaderboards/` of a checkout, which a wheel does not have, and `--runs` can name others:

* The work of an encoder is its multiplications, with every text as long as the parameters allow: at most that long. A
  rate is that of the record with the nearest work. The largest trainings on record are of all-MiniLM-L6-v2, 384 wide.
  A wider encoder, such as BERT-base, makes better use of a GPU, so its times are upper bounds.
* Clusters and pseudo pairs of MACLR grow with the corpus. They are in the rates of its own records alone.
* Other methods are counted by their texts, and their searches between texts and texts times labels.
* No record is of several GPUs. On 8 of them (`--processes 8`) a time is an eighth at best.
* A method is not listed under a preset where no record tells its rate.
"""
#: Weight of a page in the search of the site, where another page has the same words in a heading.
_WEIGHTS = {"install.md": 2, "statistics.md": 2, "index.md": 0.5, "changelog.md": 0.5}
#: Links to modules, which are pages here.
_PAGES_OF = {
    "../xmcbench/method.py": "api.md#method",
    "../xmcbench/metrics/protocol.py": "protocol.md",
    "../xmcbench/records/record.py": "record.md",
}
#: Characters in a line of help, whatever the width of the terminal is.
_WIDTH = 100


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    for name in _charts((ROOT / "README.md").read_text()):
        files.append(File.generated(config, f"figures/{name}", abs_src_path=str(ROOT / _FIGURES / name)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Weigh a page in the search, and return it with links that leave docs/ as plain text, followed by the path.

    A link to a module that has a page leads to the page.
    """
    if weight := _WEIGHTS.get(page.file.src_uri):
        page.meta["search"] = {"boost": weight}
    for module, target in _PAGES_OF.items():
        markdown = markdown.replace(f"]({module})", f"]({target})")
    return re.sub(r"\[([^]]+)\]\(\.\./([^)]*)\)", r"\1 (`\2`)", markdown)


def pages() -> dict[str, str]:
    """Name -> Markdown of every generated page."""
    return {
        "index.md": _readme(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "commands.md": _commands(),
        "methods.md": _methods(),
        "api.md": _api(),
        "protocol.md": _protocol(),
        "layouts.md": _layouts(),
        "record.md": _record(),
        "scale.md": _scale(),
    }


def _readme() -> str:
    """Return the README as a page, with its chart."""
    return _as_page((ROOT / "README.md").read_text().replace(f"]({_FIGURES}", "](figures/"))


def _charts(text: str) -> list[str]:
    """Return the names of the charts that a page shows."""
    return re.findall(rf"!\[[^]]*\]\({_FIGURES}([^)]+)\)", text)


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

    return re.sub(r"(?<!!)\[([^]]+)\]\(([^)]*)\)", link, text)


def _commands() -> str:
    parts = ["# Commands\n"]
    top = parser()
    for verb in VERBS:
        below = top.below(verb)
        parts.append(f"## xmcbench {verb}\n\n{_help(below)}\n")
        parts += [f"### xmcbench {verb} {name}\n\n{_help(listed)}\n" for name, listed in below.commands().items()]
    return "\n".join(parts)


def _scale() -> str:
    """Return the page of costs: a table for each preset, CPU and GPU for each dataset of the paper."""
    rates, registry, setting = Rates(Store(ROOT / "leaderboards").records()), Registry(), Setting.of("ez")
    cards = [card for name in _PAPER if (card := find(name).card)]
    tables: dict[str, list[list[str]]] = {}
    machines: dict[str, None] = {}
    for preset in _PRESETS:
        ((rows, _),) = resolve([Request(_PAPER[0], setting, preset=preset)], registry)
        for row in rows:
            # Defaults are the same under every preset of other methods.
            table = preset if row.preset == preset else "" if preset == _PRESETS[-1] else None
            costs = [rates.forecast(row, setting, card.counts) for card in cards]
            for device, title in (("cpu", "CPU"), ("gpu", "1 GPU")):
                if table is not None and all(device in cost for cost in costs):
                    line = [row.title, title, *(str(cost[device]) for cost in costs)]
                    tables.setdefault(table, []).append(line)
                    machines |= dict.fromkeys(name for cost in costs for name in cost[device].machines)
    heads = ["", "", *(card.name for card in cards)]
    parts = [
        f"## {f'Preset {preset}' if preset else 'Defaults'}, zero-shot\n\n{in_markdown(lines, heads)}\n"
        for preset, lines in tables.items()
    ]
    return "\n".join([_SCALE, *parts, f"## Rates\n\nThey were measured on: {'; '.join(sorted(machines))}.\n"])


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
        for name, parameter in method.parameters.items():
            said = parameter.doc.text + (f" [{parameter.doc.source}]" if parameter.doc.source else "")
            unit = f" ({parameter.unit})" if parameter.unit else ""
            kind = parameter.type_name.replace("|", "\\|")
            parts.append(f"| `{name}` | {kind}{unit} | {parameter.range} | `{parameter.default}` | {said} |")
        for preset, values in method.presets.items():
            chosen = ", ".join(f"`{name}={value}`" for name, value in values.items()) or "the defaults"
            parts.append(f"\nPreset `{preset}`: {chosen}.")
            if preset in method.choices:
                parts.append(f"Values of {preset} come from:{_origin(method.choices[preset])}")
        parts.append("")
    return "\n".join(parts)


def _origin(text: str) -> str:
    """Return the origin of the values of a preset: a sentence, or the commands by which they were chosen."""
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
        parameter.replace(annotation=_annotation(parameter.annotation), default=_default(parameter.default))
        for parameter in found.parameters.values()
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
    return "\n\n".join(_code_block(block) if re.match(r"\w+ {2,}\S", block) else block for block in blocks)


def _code_block(text: str) -> str:
    return textwrap.indent(text.replace("``", "`"), "    ")


#: The metrics of the protocol, as formulas.
_FORMULAS = """
T     true labels of a row                      N    rows of the training set
l(r)  label at rank r                           n    training pairs of a label
[x]   1 if x holds, else 0                      A,B  constants on the dataset's card

P@k    = 1/k    * sum over r <= k of [l(r) in T]
R@k    = 1/|T|  * sum over r <= k of [l(r) in T]
nDCG@k = sum over r <= k of [l(r) in T] / log2(r + 1)
         / sum over r <= min(k, |T|) of 1 / log2(r + 1)
PSP@k  = sum over rows of 1/k * sum over r <= k of [l(r) in T] * q(l(r))
         / sum over rows of 1/k * sum of the min(k, |T|) largest q(l), l in T
q(l)   = 1 + C * (n + B)^-A,   C = (ln N - 1) * (B + 1)^A
"""


def _protocol() -> str:
    formulas = f"## Formulas\n\n```text{_FORMULAS}```"
    return f"# Metric protocol\n\n{_markdown(inspect.getdoc(protocol) or '')}\n\n{formulas}\n"


def _layouts() -> str:
    written = formats()
    common = ", ".join(f"`{option}`" for option in sorted(COMMON))
    parts = [
        "# Layouts of data\n",
        "In the order in which they are tried, as `xmcbench ls layouts` prints them. Options follow the location after "
        f"a question mark; all layouts have {common} ([your data](your-data.md)).\n",
    ]
    for name, layout in layouts().items():
        options = ", ".join(f"`{option}`" for option in sorted(layout.options)) or "none of its own"
        use = "read and written" if name in written else "read"
        parts.append(f"## {name}\n\n{layout.title}\n\n* use: {use}\n* options: {options}\n")
    return "\n".join(parts)


def _record() -> str:
    structs = [
        thing for thing in vars(record).values() if inspect.isclass(thing) and thing.__module__ == record.__name__
    ]
    parts = [f"# Record schema\n\n{_markdown(inspect.getdoc(record) or '')}\n\nThis is schema {record.SCHEMA}.\n"]
    for struct in sorted(structs, key=lambda struct: struct is not record.Record):
        fields = msgspec.structs.fields(struct)
        if not fields:
            continue
        types = _types(struct)
        parts.append(f"## {struct.__name__}\n\n{_markdown(inspect.getdoc(struct) or '')}\n")
        parts.append("| field | type | default |\n|---|---|---|")
        for field in fields:
            default = "required" if field.required else f"`{_field_default(field)!r}`"
            parts.append(f"| `{field.name}` | `{types[field.name]}` | {default} |")
        parts.append("")
    return "\n".join(parts)


def _types(struct: type) -> dict[str, str]:
    """Return field -> type as in the source, of a struct and its bases; bars are escaped for a table."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        found.update(inspect.get_annotations(base))
    return {name: str(kind).replace("|", "\\|") for name, kind in found.items()}


def _field_default(field: Any) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
