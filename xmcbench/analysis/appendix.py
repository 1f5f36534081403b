"""Files for the appendix of a paper: commands, environments and references of records, and an archive of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from zipfile import ZIP_DEFLATED

from xmcbench.analysis.citations import Citations
from xmcbench.errors import StorageError
from xmcbench.output.escaping import visible
from xmcbench.output.quantities import format_count
from xmcbench.records import Record, Store
from xmcbench.records.packed import ARCHIVE, LINES, write_archive
from xmcbench.storage.atomic import write_text

#: The folders of a runs folder that hold results, and the suffixes of their files.
_FOLDERS, _SUFFIXES = ("records", "ranks", "truth"), (".json", LINES, ".npz", ARCHIVE)
#: The runs folder in the archive.
_RUNS = "runs"

_COMMANDS = """\
# Unpack records.zip first. Each command runs a cell again and compares the figures. It also needs --plugin FILE for a
# method in a file, and --dataset PLACE for a dataset that xmcbench does not find by its name.
"""


def write_appendix(store: Store, records: Sequence[Record], citations: Citations, folder: Path) -> list[Path]:
    """Write the files of an appendix about records and the archive of their runs folder; returns their paths.

    Raises StorageError.
    """
    texts = {
        "commands.txt": list_commands(records),
        "environment.txt": list_environments(records),
        "references.bib": f"{citations}\n",
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    files = _read_files(store.root)
    sums = "".join(f"{sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    files["SHA256SUMS"] = sums.encode()  # as `sha256sum --check` reads it
    archive = folder / f"records{ARCHIVE}"
    write_archive(archive, {f"{_RUNS}/{name}": content for name, content in files.items()}, ZIP_DEFLATED)
    return [*(folder / name for name in texts), archive]


def list_commands(records: Iterable[Record]) -> str:
    """Return a command per record, with a comment above it that says what it is of."""
    lines = [_COMMANDS]
    for record in records:
        cell = record.cell
        lines.append(visible(f"# {record.name}, {cell.dataset}, {cell.setting.title}, seed {cell.seed}"))
        lines.append(record.reproduction(_RUNS))
    return "\n".join([*lines, ""])


def list_environments(records: Iterable[Record]) -> str:
    """Return the versions of xmcbench, the machines and the packages of records, with the number of records of each."""
    programs, machines = Counter[str](), Counter[str]()
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        environment = record.environment
        program, hardware = environment.xmcbench, environment.hardware
        commit = f", commit {program.commit}" if program.commit else ""
        programs[f"{program.version}{commit}"] += 1
        machines[f"{hardware.kind}, {hardware.system}"] += 1
        for name, version in environment.packages.items():
            packages[name][version] += 1
    groups = {"xmcbench": programs, "machines": machines, **dict(sorted(packages.items()))}
    lines = []
    for title, counts in groups.items():
        lines.append(visible(title))
        lines += [f"  {visible(name)}: {format_count(number, 'record')}" for name, number in counts.most_common()]
        lines.append("")
    return "\n".join(lines)


def _read_files(root: Path) -> dict[str, bytes]:
    """Return the files with results below a runs folder, by their paths in it."""
    found = (path for folder in _FOLDERS for path in sorted((root / folder).rglob("*")))
    files = [path for path in found if path.suffix in _SUFFIXES and path.is_file()]
    try:
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
    except OSError as error:
        raise StorageError(f"cannot read {error.filename}: {error.strerror}") from error
