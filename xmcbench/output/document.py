"""HTML pages that need nothing from elsewhere, light and dark, legible on a phone.

A page is a file of its own that holds its style, or one of a site, whose pages share a style sheet and a script. A
Content-Security-Policy allows these alone: whatever else comes into a page, a browser neither loads nor runs it. The
icon needs images whose content is their address.

A page is made of fragments of HTML. The functions below make them from text and escape it; only ``page``, ``section``
and ``make_scrollable`` take what is HTML already.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256

from xmcbench.output.escaping import html

#: Colors have a contrast of at least 4.5 in both modes (WCAG 2.1, 1.4.3).
STYLE = """\
:root { color-scheme: light dark; --ink: #1b1b1f; --faint: #55555f; --paper: #fff; --line: #c9c9d2; --band: #f3f3f7;
  --link: #0b57b0; --good: #14663a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ee; --faint: #b0b0bc; --paper: #16161a; --line: #44444f;
  --band: #212128; --link: #8cbcff; --good: #7fd6a2; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 80rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); overflow-wrap: anywhere; }
a { color: var(--link); }
h1, h2, h3 { line-height: 1.2; margin: 1.6em 0 .5em; }
h1 { margin-top: .2em; }
p, li { max-width: 48rem; }
code { font-size: .9em; background: var(--band); padding: .1em .3em; }
pre { white-space: pre-wrap; background: var(--band); padding: .6rem; }
pre code { padding: 0; }
.wide { overflow-x: auto; margin: .8rem 0; }
.wide:focus-visible, a:focus-visible, button:focus-visible, select:focus-visible, summary:focus-visible {
  outline: 3px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--faint); padding: 0 0 .4rem; }
caption span { display: block; position: sticky; left: 0; max-width: min(48rem, calc(100vw - 2.2rem)); }
th, td { padding: .3rem .6rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 11rem; }
thead th { vertical-align: bottom; background: var(--band); }
tbody th { font-weight: normal; }
small { color: var(--faint); }
article { border: 1px solid var(--line); padding: .6rem .9rem; margin: .8rem 0; }
article h3 { margin: 0 0 .3em; font-size: 1rem; }
"""

#: Three bars. Without an icon, a browser asks the server for one.
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E"
    "%3Cpath fill='%230b57b0' d='M0 5h2v3H0zM3 2h2v6H3zM6 0h2v8H6z'/%3E%3C/svg%3E"
)


def page(title: str, body: Iterable[str], *, style: str = "", site: str = "", mark: str = "") -> str:
    """Return a whole page. body: fragments of HTML. mark: the command that made it.

    style: CSS besides ``STYLE``, for a file of its own. site: the name, without suffix, of the style sheet and the
    script that lie beside the page, which then holds neither.
    """
    comment = f"<!-- {html(mark).replace('--', '- -')} -->\n" if mark else ""
    if site:
        look = f'<link rel="stylesheet" href="{site}.css">\n<script defer src="{site}.js"></script>'
        # Not every browser takes the folder of a page that is opened from disk for its own origin.
        allowed = "style-src 'self' file:; script-src 'self' file:"
    else:
        content = f"\n{STYLE}{style}"
        assert "</" not in content  # else the element could end before
        look = f"<style>{content}</style>"
        allowed = f"style-src 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
    policy = f"default-src 'none'; img-src data:; {allowed}; base-uri 'none'; form-action 'none'"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n{comment}<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="{_ICON}">\n'
        f"<title>{html(title)}</title>\n{look}\n</head>\n<body>\n{chr(10).join(body)}\n</body>\n</html>\n"
    )


def heading(level: int, text: str, anchor: str = "") -> str:
    """Return a heading; ``anchor`` is its id for links."""
    own = f' id="{html(anchor)}"' if anchor else ""
    return f"<h{level}{own}>{html(text)}</h{level}>"


def paragraph(text: str) -> str:
    """Return a paragraph; line breaks stay."""
    return f"<p>{'<br>'.join(map(html, text.split(chr(10))))}</p>"


def items(texts: Iterable[str]) -> str:
    """Return a list."""
    return f"<ul>{''.join(f'<li>{html(text)}</li>' for text in texts)}</ul>"


def section(kind: str, parts: Iterable[str]) -> str:
    """Return HTML inside an element."""
    return f"<{kind}>{''.join(parts)}</{kind}>"


def table(caption: str, heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table of texts; the first column names the rows."""
    columns = "".join(f'<th scope="col">{html(head)}</th>' for head in heads)
    rows = "".join(
        f'<tr><th scope="row">{html(line[0])}</th>{"".join(f"<td>{html(cell)}</td>" for cell in line[1:])}</tr>\n'
        for line in lines
    )
    return make_scrollable(
        f"<table><caption><span>{html(caption)}</span></caption>\n<thead><tr>{columns}</tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table>",
        label=caption,
    )


def make_scrollable(content: str, *, label: str = "", labelled_by: str = "") -> str:
    """Return HTML that may be wider than the page, in an element that scrolls, also by keyboard.

    label: its name for a screen reader. labelled_by: the id of the element in it that has the name, instead.
    """
    name = f'aria-labelledby="{html(labelled_by)}"' if labelled_by else f'aria-label="{html(label)}"'
    return f'<div class="wide" role="region" tabindex="0" {name}>{content}</div>'
