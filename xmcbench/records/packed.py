"""Packed records: few files for a board, which is kept under version control.

records/<dataset>/<setting>.jsonl   a record per line as canonical JSON, by the names that their own files would have
ranks/<dataset>/<setting>.zip       the .npz files of their ranks, as they are, by name

Equal records give equal bytes, and a record takes one line, so that two contributions merge.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from xmcbench.errors import StorageError
from xmcbench.records.record import Record
from xmcbench.records.record_json import DamagedRecord, parse_record
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.canonical import canonical_json
from xmcbench.storage.reading import ARRAYS, Unreadable, open_regular, read_bytes

LINES, ARCHIVE = ".jsonl", ".zip"

#: The time of every member of an archive: the earliest one that the format has.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Line:
    """A line of a packed file. place: the file and the number of the line. record: what it holds, or why it does not
    hold a record."""

    place: Path
    content: bytes
    record: Record | StorageError


def as_line(content: bytes) -> bytes:
    """Return a record's JSON as a line, which has the same checksum."""
    return canonical_json(msgspec.json.decode(content)).encode()


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a packed file; none if it is missing. Raises StorageError if it cannot be read."""
    try:
        content = read_bytes(path, ARRAYS)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, Unreadable) as error:
        raise StorageError(f"cannot read the records {path}: {error}", "restore the file") from error
    lines, seen = [], dict[str, int]()
    for number, line in enumerate(content.split(b"\n"), 1):
        if line:
            place = path.with_name(f"{path.name}, line {number}")
            lines.append(Line(place, line, _record_of(line, place, seen, number)))
    return lines


def _record_of(line: bytes, place: Path, seen: dict[str, int], number: int) -> Record | StorageError:
    """seen: name of a cell's files -> the line of its record, for those before this one."""
    try:
        record = parse_record(line, str(place))
    except DamagedRecord as error:
        return DamagedRecord(error.message, "restore the line, or delete it and run the cell again")
    except StorageError as error:
        return error
    path = record.cell.path
    if (path.parent.name + LINES, path.parent.parent.name) != (place.name.partition(", ")[0], place.parent.name):
        return StorageError(f"{place} holds a record of {path.parent}", "move or delete the line")
    if (first := seen.setdefault(path.name, number)) != number:
        return StorageError(f"{place} holds another record of the cell of line {first}", "delete one of the lines")
    return record


def write_lines(path: Path, lines: Mapping[str, bytes], unreadable: list[bytes]) -> None:
    """Write a packed file, atomically: lines by the names of their records, then those that hold none, as they were.

    Raises StorageError.
    """
    with atomic_file(path) as stream:
        stream.writelines(line + b"\n" for line in [*(lines[name] for name in sorted(lines)), *unreadable])


def read_archive(path: Path) -> dict[str, bytes]:
    """Return the members of an archive; none if it is missing. Raises StorageError if it cannot be read."""
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
            if not all(name.endswith(".npz") for name in names):  # the end of a truncated one is that of a member
                raise ValueError("it has other files than ranks")
            return {name: archive.read(name) for name in names}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except Exception as error:  # zipfile does not document what it raises for damaged bytes
        raise StorageError(f"cannot read the ranks {path}: {error}", "restore the file") from error


def write_archive(path: Path, members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    """Write an archive, atomically; equal members give equal bytes. Raises StorageError.

    compression: one of ``zipfile``; ranks are compressed already.
    """
    with atomic_file(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name in sorted(members):
            member = zipfile.ZipInfo(name, _NO_TIME)
            member.create_system, member.external_attr = 3, 0o644 << 16  # as on Unix, whatever this system is
            archive.writestr(member, members[name], compression)
