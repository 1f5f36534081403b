"""Records for other programs: as Parquet, CSV or a dataset of the Hugging Face hub, and as runs of MLflow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.errors import StorageError, Unavailable, UsageError
from xmcbench.extras import installation
from xmcbench.output import escaping
from xmcbench.output.quantities import format_count
from xmcbench.records import Record, Staleness
from xmcbench.results import flat
from xmcbench.storage.artifact_store import UNFINISHED, list_stores
from xmcbench.storage.atomic import atomic_file, write_text
from xmcbench.storage.canonical import canonical_json

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: The card of a dataset of the Hugging Face hub, which reads its head.
_CARD = """\
---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/records.parquet
tags:
- xmcbench
---

# Results of xmcbench

{rows}, a line per cell: identity, every metric with the ends of its 95% interval as fractions, seconds and bytes.
Datasets: {datasets}.
"""

#: Tags that identify a record on the server.
_KEY, _SHA256 = "xmcbench.key", "xmcbench.sha256"
#: What identifies a cell beside the parameters of its method.
_PARAMETERS = ("dataset", "setting", "by", "ratio", "method", "seed", "filter")
#: The longest value of a parameter or a tag.
_LONGEST = 5000


def write_records(records: Sequence[Record], path: Path, staleness: Staleness) -> None:
    """Write records as .parquet or .csv, by the suffix, or as the folder of a dataset of the hub; under their filters.

    Columns are those of ``Results.frame``, and besides these the variant, the parameters as JSON, the machine and the
    digest of the dataset. In CSV, text is escaped for spreadsheets. Raises UsageError for another suffix, StorageError.
    """
    lines = [_line(record, staleness) for record in records]
    if path.suffix == ".parquet":
        _write_parquet(lines, path)
    elif path.suffix == ".csv":
        heads = tuple(lines[0]) if lines else ()
        write_text(path, escaping.csv_file([heads, *(line.values() for line in lines)]))
    elif not path.suffix:
        datasets = ", ".join(sorted({record.cell.dataset for record in records}))
        _write_parquet(lines, path / "data" / "records.parquet")
        card = _CARD.format(rows=format_count(len(lines), "record"), datasets=escaping.visible(datasets))
        write_text(path / "README.md", card)
    else:
        hint = "name it .parquet or .csv, or without a suffix for a folder as the Hugging Face hub has them"
        raise UsageError(f"records cannot be written as {path.name}", hint)


def _write_parquet(lines: Sequence[Mapping[str, Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with atomic_file(path) as stream:
        pq.write_table(pa.Table.from_pylist(lines), stream)


def _line(record: Record, staleness: Staleness) -> dict[str, Any]:
    return {
        **flat(record, record.protocol.filter, staleness),
        "variant": record.method.variant,
        "parameters": canonical_json(record.cell.parameters),
        "hardware": record.environment.hardware.kind,
        "dataset_sha256": record.cell.dataset_sha256,
        "protocol": record.protocol.version,
    }


def log_records(records: Sequence[Record], runs: str, uri: str, experiment: str, staleness: Staleness) -> int:
    """Write records as runs of an experiment, under the filter of each; returns how many were written.

    runs: the folder of the records, for the command that reproduces one. uri: of a tracking server, or a folder. A
    record that is there with the same content is left out; one that was run again becomes another run. Metrics are
    fractions; their names have ``_at_`` for ``@``, which MLflow does not allow.

    Raises Unavailable without MLflow, and StorageError where the server or the folder refuses.
    """
    # Nothing is sent anywhere but to the given address; a folder is what was asked for.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError:
        raise Unavailable("MLflow is not installed", installation("mlflow-skinny")) from None
    try:
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(experiment)
        number = found.experiment_id if found else client.create_experiment(experiment)
        there = {run.data.tags.get(_SHA256) for run in _runs(client, number)}
        new = [record for record in records if record.sha256 not in there]
        for record in new:
            _log(client, number, record, runs, staleness)
    except (MlflowException, OSError) as error:
        raise StorageError(f"MLflow cannot write to {uri}: {escaping.visible(str(error))}") from error
    return len(new)


def _runs(client: MlflowClient, experiment: str) -> Iterator[Any]:
    """Yield all runs of an experiment, page by page."""
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _log(client: MlflowClient, experiment: str, record: Record, runs: str, staleness: Staleness) -> None:
    from mlflow.entities import Metric, Param

    line = flat(record, record.protocol.filter, staleness)
    start = int(1000 * datetime.fromisoformat(record.measured.started).timestamp())
    end = start + int(1000 * record.measured.total_s)
    tags = {
        _KEY: record.key,
        "xmcbench.problem": line["problem"],
        "xmcbench.machine": record.environment.hardware.kind,
        "xmcbench.protocol": str(record.protocol.version),
        "xmcbench.reproduce": record.reproduction(runs),
    }
    parameters = {name: line[name] for name in _PARAMETERS if line[name] is not None}
    parameters |= {f"{record.cell.method}.{name}": value for name, value in record.cell.parameters.items()}
    numbers = {name: value for name, value in line.items() if type(value) in (int, float) and name not in parameters}
    shown = {name: _shorten(value) for name, value in {**tags, "mlflow.note.content": record.name}.items()}
    run = client.create_run(experiment, start, shown, f"{escaping.visible(record.name)}, seed {record.cell.seed}")
    client.log_batch(
        run.info.run_id,
        [Metric(name.replace("@", "_at_").replace(" ", "_"), value, end, 0) for name, value in numbers.items()],
        [Param(name, _shorten(value)) for name, value in parameters.items()],
    )
    client.set_terminated(run.info.run_id, "FINISHED" if record.finished else "FAILED", end)
    # Last: a run without it was interrupted, and does not count as there.
    client.set_tag(run.info.run_id, _SHA256, record.sha256)


def _shorten(value: object) -> str:
    return escaping.visible(str(value))[:_LONGEST]


def collect_judgments(runs: Path) -> list[str]:
    """Return the judgments that cells below a runs folder kept, finished or not: lines of JSON, each once."""
    kept = "judgments"
    found: dict[str, None] = {}
    for store in list_stores(runs):
        for folder in (*sorted(store.glob(f"{kept}/*/")), *sorted((store / UNFINISHED).glob(f"{kept}-*/"))):
            if (file := folder / f"{kept}.jsonl").is_file():
                with file.open("rb") as lines:
                    # The last line can be half written, also in the middle of a character.
                    found.update((line.decode().rstrip("\n"), None) for line in lines if line.endswith(b"\n"))
    return sorted(found)
