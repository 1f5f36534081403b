"""Figures as PNG, rendered from SVG. The look of the text depends on the machine's fonts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from xmcbench.errors import Unavailable
from xmcbench.extras import installation
from xmcbench.storage.atomic import atomic_file

#: Pixels per unit of a chart: 1200 wide, enough for print at the width of a column.
_ZOOM = 2


def require() -> None:
    """Raise Unavailable if the package that renders is not installed."""
    if find_spec("resvg_py") is None:
        raise Unavailable("PNG needs the package resvg-py", installation("resvg-py"))


def write_png(svg: str, path: Path) -> None:
    """Write an SVG document as PNG, on white. Raises Unavailable and StorageError."""
    require()
    import resvg_py

    with atomic_file(path) as stream:
        stream.write(bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=_ZOOM, background="#ffffff")))
