"""Layouts of datasets: one module each, behind the interface of ``xmcbench.data.sources.source``.

A package adds a layout by an entry point of the group ``xmcbench.sources`` that names a class derived from ``Source``.
"""

from xmcbench.data.sources.source import Content, Holding, Part, Place, Row, Source

__all__ = ["Content", "Holding", "Part", "Place", "Row", "Source"]
