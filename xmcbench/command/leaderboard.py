"""Write the leaderboard from stored records, check that it is up to date, or add records to it.

xmcbench leaderboard                         pages and figures in ./leaderboards, from records and remarks there;
                                             records that runs wrote there are packed: a file per setting
xmcbench leaderboard --refresh               run stale cells again first
xmcbench leaderboard --check                 change nothing; exit 1 if a file is out of date
xmcbench leaderboard --format html --out site  a site that opens from disk, offline
xmcbench leaderboard --format latex --out D  write every table as a file to \\input in a paper
xmcbench leaderboard add RUNS...             score predictions again and copy the records that they confirm; RUNS is a
                                             folder, a .tar.gz or .zip of one, or the address of such a file
xmcbench leaderboard add RUNS... --check     change nothing; list what would be added and what is refused
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from filecmp import cmpfiles
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.command import flags, report, request
from xmcbench.errors import StorageError, UsageError, XmcbenchError
from xmcbench.output.escaping import terminal
from xmcbench.output.quantities import format_count

if TYPE_CHECKING:
    from xmcbench.plugins.registry import Registry
    from xmcbench.records import Record, Staleness, Store

BOARD = Path("leaderboards")
#: Lines about outdated files that are printed, at most.
_SHOWN = 20


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench leaderboard``."""
    parser.add_argument(
        "action", nargs="?", choices=("add",), metavar="add", help="add records instead of writing pages"
    )
    parser.add_argument(
        "sources", nargs="*", metavar="RUNS", help="runs folders, archives of them, or their addresses (with add)"
    )
    flags.path(
        parser,
        "out",
        "DIR",
        "output folder (default: the folder of --runs, otherwise ./leaderboards; with another --format, a "
        "subfolder named after it)",
    )
    flags.path(
        parser, "runs", "DIR", "runs folder to read (default: --out with --format markdown, otherwise ./leaderboards)"
    )
    parser.add_argument(
        "--format",
        choices=("markdown", "latex", "csv", "json", "html"),
        default="markdown",
        help="of the output (default: %(default)s)",
    )
    flags.switch(parser, "force", "replace files that were not generated; with add: replace records of the same cells")
    shown = "also show datasets that have published rows only (default: if the runs folder has published/)"
    flags.switch(parser, "published", shown)
    flags.add(parser, "plugin")
    flags.switch(parser, "check", "change nothing; exit 1 if a file is out of date or a record is refused")
    flags.switch(parser, "refresh", "first run stale cells again: those whose code has changed")
    flags.add_limits(parser)
    parser.add_argument(
        "--dataset",
        action="append",
        default=[],
        metavar="NAME|PLACE",
        help="a dataset that is not found by its name in the records, or the one of that name to show; may be repeated",
    )
    flags.add(parser, "columns")


def run(arguments: argparse.Namespace) -> int:
    """Write, compare, or add; 1 if --check finds a difference or ``add`` refuses a record."""
    if arguments.action == "add":
        return _add(arguments)
    from xmcbench.data.catalog import known_datasets
    from xmcbench.leaderboard.examples import Examples
    from xmcbench.leaderboard.files import differences, files, write
    from xmcbench.leaderboard.overall import read_list
    from xmcbench.leaderboard.pages import pages, read_remarks
    from xmcbench.records import Store
    from xmcbench.runner.scoring import StoredScores

    if arguments.check and arguments.refresh:
        raise UsageError("--check changes nothing, and --refresh runs cells", "use one of them")
    if not arguments.refresh:
        unused = "{} can only be used with --refresh"
        request.check_unused(arguments, unused, "without it, no cell is run", **flags.LIMITS)
    plain = arguments.format == "markdown"
    beside = arguments.runs or BOARD  # pages of other records never replace those of the project's board
    out = arguments.out or (beside if plain else beside / arguments.format)
    runs = arguments.runs or (out if plain else BOARD)
    if not (runs / "records").is_dir():
        raise UsageError(f"there are no records in {runs}", "give the folder that `xmcbench run` wrote: --runs DIR")
    registry = request.registry(arguments.plugin)
    staleness = registry.staleness(runs)
    failed = _refresh(arguments, Store(runs), registry, staleness) if arguments.refresh else 0
    store = Store(runs)
    places = request.places_by_name(arguments)
    records, outdated = _with_current_figures(store, arguments.check, places, staleness)
    outdated += _pack(store, arguments.check)
    left_out = report.warn_left_out(store)
    records = report.select_latest(records, places)
    # A board of one's own is about one's own datasets; the one that comes with xmcbench has its sources beside it.
    own = not arguments.published and not (runs / "published").is_dir()
    # The commands on the pages name the folder: its path would depend on where and how this one was called.
    name = runs.resolve().name
    place = "" if name == BOARD.name else name
    remarks, ranked = read_remarks(runs / "remarks"), read_list(runs)
    scores = StoredScores(store)
    board = pages(
        records,
        remarks=remarks,
        staleness=staleness,
        measured_only=own,
        runs=place,
        ranked=ranked,
        scores=scores,
        examples=Examples.of(store),
        dates={listing.name: listing.card.date for listing in known_datasets() if listing.card},
    )
    report.note_untested(scores)
    made = files(board, arguments.format, records=_find_packed(store, out))
    report.note_unknown(records, staleness)
    stale = sum(bool(staleness.problem(record)) for record in records if record.ok)
    if stale:
        print(f"stale records: {stale} of {len(records)}; their rows are marked", file=sys.stderr)
    if arguments.check:
        return max(report_outdated([*outdated, *differences(out, made)], len(made)), int(bool(left_out)))
    for path in write(out, made, arguments.force):
        print(f"removed: {terminal(str(path))}, which was generated earlier and is obsolete", file=sys.stderr)
    first = {"markdown": "README.md", "html": "index.html"}.get(arguments.format)
    index = f", the index is {out / first}" if first else ""
    print(f"{format_count(len(made), 'file')} in {out}{index}")
    return 1 if failed or left_out else 0


def _find_packed(store: Store, out: Path) -> str:
    """Return the way from the folder of a site to the packed records or a copy of them, in it or beside it.

    Empty if there are none: records of another board lack some of the rows.
    """
    from xmcbench.records.packed import LINES

    packed = store.root / "records"
    names = [path.relative_to(packed).as_posix() for path in packed.glob(f"*/*{LINES}")]
    for place, folder in (("records", out), ("../records", out.absolute().parent)):
        same, _, _ = cmpfiles(packed, folder / "records", names, shallow=False)
        if names and same == names:
            return place
    return ""


def report_outdated(outdated: list[str], files: int) -> int:
    """Print the lines about outdated files, the first twenty of them, and return the exit code."""
    for line in outdated[:_SHOWN]:
        print(f"xmcbench: {line}", file=sys.stderr)
    if len(outdated) > _SHOWN:
        print(f"xmcbench: and {len(outdated) - _SHOWN} more", file=sys.stderr)
    if outdated:
        print(f"out of date: {format_count(len(outdated), 'file')} (run the same command without --check)")
        return 1
    print(f"up to date: {format_count(files, 'file')}")
    return 0


def _refresh(arguments: argparse.Namespace, store: Store, registry: Registry, staleness: Staleness) -> int:
    """Run every cell again whose code has changed; returns how many still have no fresh result."""
    from xmcbench.display import execute_shown
    from xmcbench.environment import Compute
    from xmcbench.runner.plan import plan_again
    from xmcbench.runner.target import Target

    limits, failed = request.limits(arguments), 0
    datasets = request.places_by_name(arguments)
    for record in [record for record in store.records() if record.ok and staleness.is_stale(record)]:
        name = record.cell.dataset
        try:
            planned = plan_again(record, datasets.get(name, name), registry, store, refresh=True)
            place = Target(store, limits, record.environment.compute or Compute())
            (made,) = execute_shown(planned, place)
            problem = "" if made.ok else f"{made.status}: {made.reason}"
        except XmcbenchError as error:
            problem = str(error)
        if problem:
            failed += 1
            print(f"xmcbench: {store.record_path(record.cell)}: {problem}", file=sys.stderr)
    return failed


def _with_current_figures(
    store: Store, check: bool, places: Mapping[str, str], staleness: Staleness
) -> tuple[list[Record], list[str]]:
    """Return the records, scored again where the code of ranks or metrics, propensities or the default filter changed.

    places: of datasets not found by name. With ``check`` nothing is written; the second part names outdated records.
    """
    from xmcbench.data.card import is_limited
    from xmcbench.data.catalog import known_datasets, load_dataset
    from xmcbench.runner.scorer import Scorer
    from xmcbench.runner.scoring import can_rank_again, is_outdated, up_to_date

    cards = {dataset.name: dataset.card for dataset in known_datasets() if dataset.card}
    cards |= {name: load_dataset(place).card for name, place in places.items()}
    records, outdated = [], []
    read = store.records()
    whole = [record for record in read if not is_limited(record.cell.dataset)]
    if limited := len(read) - len(whole):
        said = format_count(limited, "record")
        print(f"left out: {said} of --limit, on some documents of a dataset", file=sys.stderr)
    with Scorer() as scorer:
        for record in whole:
            card, scored = cards.get(record.cell.dataset), record.protocol
            constants = (card.propensity.a, card.propensity.b) if card else scored.propensity
            default = card.filter if card else scored.filter
            ranked_again = can_rank_again(record, store, staleness)
            if not (ranked_again or is_outdated(record, default, constants, staleness)):
                records.append(record)
                continue
            path, name = store.place(record.cell), record.cell.dataset
            code = "its ranks are from other code" if ranked_again else "figures are from other metrics or propensities"
            outdated.append(f"{path}: {code}, or of another default filter")
            place = places.get(name, name)
            found = record if check else up_to_date(record, place, default, constants, store, scorer, staleness)
            if found is None:
                raise StorageError(f"{path}: another run has this cell", "wait until it has ended")
            records.append(found)
    return records, outdated


def _pack(store: Store, check: bool) -> list[str]:
    """Pack the records that runs wrote to a board; with ``check`` return a line per record instead."""
    from xmcbench.records.packing import loose_records, pack

    if not store.is_packed():
        return []
    if check:
        return [f"{path}: not packed" for path in loose_records(store) if path not in store.left_out]
    if moved := pack(store):
        print(f"packed: {format_count(moved, 'record')} that runs wrote", file=sys.stderr)
    return []


def _add(arguments: argparse.Namespace) -> int:
    from xmcbench import submissions
    from xmcbench.records import Store
    from xmcbench.runner.scorer import Scorer

    if not arguments.sources:
        raise UsageError("leaderboard add needs a runs folder", "xmcbench leaderboard add RUNS...")
    unused, hint = "leaderboard add does not take {}", "run `xmcbench leaderboard` with it afterward"
    request.check_unused(arguments, unused, hint, refresh=False, published=False, format="markdown", **flags.LIMITS)
    if arguments.out and arguments.runs:
        raise UsageError("--out and --runs are the same folder for leaderboard add", "use one of them")
    board = Store(arguments.out or arguments.runs or BOARD)
    datasets = request.places_by_name(arguments)
    with submissions.runs_folders(arguments.sources) as roots, Scorer() as scorer:
        registry = request.registry(arguments.plugin)
        found = submissions.examine(roots, board, registry, scorer, datasets, force=arguments.force)
        for path, reason in found.unfinished.items():
            print(f"left out: {path}: {reason}")
        for path, error in found.refused.items():
            said = str(error) if str(path) in str(error) else f"{path}: {error}"
            print(f"xmcbench: refused: {said}", file=sys.stderr)
        if arguments.check:
            for accepted in found.accepted:
                said = "already there" if accepted.there else "would be added"
                print(f"{said}: {board.place(accepted.record.cell)}")
        else:
            submissions.add(found.accepted, board, scorer)
            for accepted in found.accepted:
                print(f"{'already there' if accepted.there else 'added'}: {board.place(accepted.record.cell)}")
    return max(report.warn_left_out(board), int(bool(found.refused)))
