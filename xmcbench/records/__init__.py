"""Records: what came out of a cell, one JSON file each, with the ranks that its figures follow from."""

from xmcbench.records.ranks import Ranks, Truth
from xmcbench.records.record import Cell, Record
from xmcbench.records.record_json import as_json, read_record
from xmcbench.records.standing import Standing
from xmcbench.records.store import Store

__all__ = ["Cell", "Ranks", "Record", "Standing", "Store", "Truth", "as_json", "read_record"]
