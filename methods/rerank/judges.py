"""The judge that a method names: a model on this machine, or one behind a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xmcbench import Compute, UsageError
from xmcbench.methods.declarations import PrecisionName
from xmcbench.methods.rerank.judgments import Judge
from xmcbench.methods.rerank.local import CrossEncoder, check_cross_encoder
from xmcbench.methods.rerank.server import Server

#: Characters of a word of English with its space, and of a token, about; tokens around both texts.
_OF_WORD, _OF_TOKEN, _AROUND = 6, 4, 20


def judge_inputs(parameter: str, model: str, url: str | None, judgments: str | None) -> dict[str, Path | str]:
    """Return the inputs of a judge: the model that a parameter names, with its commit, and a file of judgments."""
    from xmcbench.methods.encoder.backbone import model_input

    kept: dict[str, Path | str] = {"judgments": Path(judgments)} if judgments else {}
    return {**(model_input(parameter, model) if url is None else {}), **kept}


def require_judge(model: str, url: str | None, judgments: str | None) -> None:
    """Raise Unavailable where the model is not available. Raises UsageError where it is a folder without a judge, or
    the file of judgments is not there."""
    from xmcbench.methods.embedder.folder import check_folder
    from xmcbench.methods.encoder.backbone import require_located

    if judgments and not Path(judgments).is_file():
        raise UsageError(f"there is no file of judgments at {judgments}", "xmcbench export judgments makes one")
    if url is None:
        require_located(model)
        check_folder(model)
        check_cross_encoder(Path(model).expanduser())


def open_judge(
    model: str,
    url: str | None,
    compute: Compute,
    precision: PrecisionName,
    max_length: int | None,
    batch: int,
    instruction: str | None,
) -> tuple[Judge, Mapping[str, object]]:
    """Open a judge; return it with facts about its model. Raises Unavailable where it is not available, UsageError
    where it is not a judge."""
    if url is not None:
        return Server(url, model, instruction, batch, max_length), {"name": model, "source": "a server", "sha256": ""}
    judge = CrossEncoder(model, compute, precision, max_length, batch, instruction)
    return judge, judge.notes


def estimate_tokens(
    calls: int,
    characters: tuple[float, float],
    url: str | None,
    max_length: int | None,
    instruction: str | None,
) -> int:
    """Return about how many tokens questions have. characters: mean lengths of documents and labels."""
    document, label = characters
    if max_length:
        document = min(document, max_length * (_OF_TOKEN if url is None else _OF_WORD))
    return round(calls * (_AROUND + (document + label + len(instruction or "")) / _OF_TOKEN))
