"""Opening a checkpoint: its network, its tokenizer, and how long a text may be."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import torch
from torch import nn

from xmcbench import UsageError
from xmcbench.methods.encoder.hardware import Chosen
from xmcbench.methods.encoder.network import Encoder, Head
from xmcbench.methods.encoder.settings import read_settings
from xmcbench.methods.encoder.tokens import Tokenizer

#: Vocabulary files; a tokenizer has at least one of them.
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
#: Architectures that number positions as RoBERTa does, behind that of the padding: the first embeddings go unused.
_SKIPPING = (
    *("camembert", "data2vec-text", "ibert", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm"),
    *("xlm-roberta", "xlm-roberta-xl", "xmod"),
)
_SKIPPED = 2


def open_encoder(folder: Path, head: Head, seed: int, projection: bool = False, precision: Chosen = "fp32") -> Encoder:
    """The checkpoint in ``folder`` under a head; layers that it does not bring are drawn from ``seed``. Raises
    UsageError where the folder is not a checkpoint of an encoder, states what is not followed here, or lacks weights:
    random numbers are never used instead."""
    settings = read_settings(folder)
    transformer = _open_transformer(settings.transformer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Encoder(transformer, head, settings, projection, precision)


def _open_transformer(folder: Path) -> nn.Module:
    from safetensors import SafetensorError
    from transformers import AutoModel
    from transformers.utils import logging

    # Both would write to stderr; a checkpoint that does not fit is an error below.
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        transformer, report = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,  # without a word on it transformers asks on a terminal
            dtype=torch.float32,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"{folder} is not a checkpoint of an encoder: {str(error).splitlines()[0]}") from error
    lacking = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if lacking or report["mismatched_keys"]:
        named = lacking or sorted(str(key) for key in report["mismatched_keys"])
        raise UsageError(f"the checkpoint {folder} lacks {len(named)} weights of its architecture, {named[0]} first")
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None  # never used here, and parameters without a gradient stop data-parallel training
    return cast(nn.Module, transformer)


def open_tokenizer(folder: Path, prompt: str = "") -> Tokenizer:
    """The checkpoint's tokenizer, which puts a prompt before every text. Raises UsageError where it has none that runs
    in ``tokenizers``."""
    from transformers import AutoTokenizer

    settings = read_settings(folder)
    folder = settings.transformer
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        # transformers would create one with an empty vocabulary.
        raise UsageError(f"{folder} has no tokenizer", f"one of {', '.join(_VOCABULARIES)}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if tokenizer.pad_token_id is None:
            raise ValueError("it has no padding token")
        return Tokenizer(
            tokenizer.backend_tokenizer,
            tokenizer.pad_token_id,
            prompt,
            settings.do_lower_case,
            tokenizer.truncation_side,
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError, ImportError) as error:
        raise UsageError(f"{folder} has no usable tokenizer: {str(error).splitlines()[0]}") from error


def longest_input(folder: Path) -> int:
    """Tokens of a text at most: what the checkpoint states, and what its position embeddings can take."""
    from transformers import AutoConfig

    settings = read_settings(folder)
    config = AutoConfig.from_pretrained(settings.transformer, local_files_only=True, trust_remote_code=False)
    # An architecture may have the number under a name of its own, and none, or -1, is no limit.
    positions = getattr(config, "max_position_embeddings", None) or 0
    limit = positions - _SKIPPED * (config.model_type in _SKIPPING) if positions > 0 else 2**31 - 1
    return min(limit, settings.max_seq_length or limit)
