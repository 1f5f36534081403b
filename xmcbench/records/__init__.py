"""Records: what came out of a cell, one JSON file each, with the ranks that its figures follow from."""

from xmcbench.records.ranks import Ranks, Truth
from xmcbench.records.record import Cell, Record
from xmcbench.records.record_json import as_json, read_record
from xmcbench.records.staleness import Staleness
from xmcbench.records.store import Store

__all__ = ["Cell", "Ranks", "Record", "Staleness", "Store", "Truth", "as_json", "read_record"]
