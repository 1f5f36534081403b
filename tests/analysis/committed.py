"""Committed records as the files of a runs folder."""

from fnmatch import fnmatch
from pathlib import Path

from xmcbench.records import Store

BOARD = Path(__file__).parents[2] / "leaderboards"


def copy_records(pattern, root):
    """Copy the committed records whose path matches, with their ranks and true pairs, to a runs folder."""
    board, runs = Store(BOARD), Store(root)
    for record in board.records():
        if fnmatch(record.cell.path.as_posix(), pattern):
            truth = board.truth(record)
            runs.write(record)
            board.ranks(record, truth).save(runs.ranks_path(record.cell))
            truth.save(runs.truth_path(record.cell.dataset, truth.digest))
