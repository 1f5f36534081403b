"""Records: what came out of a cell, one JSON file each."""

from xmcbench.records.record import SCHEMA, Cell, read_record
from xmcbench.records.store import Store

__all__ = ["SCHEMA", "Cell", "Store", "read_record"]
