"""Records as a table that other programs read: Parquet or CSV, a line per cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xmcbench.errors import UsageError
from xmcbench.output import escaping
from xmcbench.records import Record, Standing
from xmcbench.results import flat
from xmcbench.storage.atomic import atomic_file, write_text
from xmcbench.storage.canonical import canonical_json


def write_records(records: Sequence[Record], path: Path, standing: Standing) -> None:
    """Write records as .parquet or .csv, by the suffix of the file; under the filter of each.

    Columns are those of ``Results.frame``, and besides these the variant, the parameters as JSON, the machine and the
    digest of the dataset. In CSV, text is escaped for spreadsheets. Raises UsageError for another suffix, StorageError.
    """
    lines = [_line(record, standing) for record in records]
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        with atomic_file(path) as stream:
            pq.write_table(pa.Table.from_pylist(lines), stream)
    elif path.suffix == ".csv":
        heads = tuple(lines[0]) if lines else ()
        write_text(path, escaping.csv_file([heads, *(each.values() for each in lines)]))
    else:
        raise UsageError(f"records cannot be written as {path.name}", "name it .parquet or .csv")


def _line(record: Record, standing: Standing) -> dict[str, Any]:
    return {
        **flat(record, record.protocol.filter, standing),
        "variant": record.method.variant,
        "parameters": canonical_json(record.cell.parameters),
        "hardware": record.environment.hardware.kind,
        "dataset_sha256": record.cell.dataset_sha256,
        "protocol": record.protocol.version,
    }
