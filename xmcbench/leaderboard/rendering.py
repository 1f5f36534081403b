"""Figures as PNG and PDF, rendered from SVG. The look of the text depends on the machine's fonts."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from xmcbench.errors import Unavailable
from xmcbench.extras import installation
from xmcbench.storage.atomic import atomic_file

#: Format -> the module that renders it, and its package.
FORMATS = {"png": ("resvg_py", "resvg-py"), "pdf": ("cairosvg", "cairosvg")}
#: Pixels per unit of a chart: 1200 wide, enough for print at the width of a column.
_ZOOM = 2


def require(kind: str) -> Any:
    """Return the module that renders ``png`` or ``pdf``. Raises Unavailable if it cannot be imported."""
    module, package = FORMATS[kind]
    try:
        return import_module(module)
    except ImportError:
        raise Unavailable(f"{kind.upper()} needs the package {package}", installation(package)) from None
    except OSError as error:  # the library below it is missing
        raise Unavailable(f"{package}: {str(error).splitlines()[0]}", "install Cairo, such as libcairo2") from None


def write(svg: str, path: Path) -> None:
    """Write an SVG document as the format of the file's suffix, on white. Raises Unavailable and StorageError."""
    kind = path.suffix[1:]
    module = require(kind)
    with atomic_file(path) as stream:
        if kind == "png":
            stream.write(bytes(module.svg_to_bytes(svg_string=svg, zoom=_ZOOM, background="#ffffff")))
        else:
            stream.write(module.svg2pdf(bytestring=svg.encode()))
