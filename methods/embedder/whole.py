"""Whether a model that sentence-transformers has loaded is whole."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from xmcbench import UsageError
from xmcbench.methods.encoder.saved_config import Architecture, read_config, transformer_folders


def refuse_missing_weights(folder: Path, model: nn.Module) -> None:
    """Raise UsageError if a transformer of the model in ``folder`` lacks weights of its architecture.

    transformers draws them at random and only warns, so that every run would rank differently.
    """
    from transformers import PreTrainedModel

    # In reverse, so that the outermost module of an architecture is what counts.
    loaded = [part for part in model.modules() if isinstance(part, PreTrainedModel)]
    classes = {part.config.model_type: type(part) for part in reversed(loaded)}
    for part in transformer_folders(folder):
        config = read_config(part / "config.json", Architecture)
        architecture = classes.get(config.model_type) if config else None
        if architecture is None:
            continue
        # On the device meta no weight is read, only names and shapes.
        _, report = architecture.from_pretrained(
            part, local_files_only=True, use_safetensors=True, device_map="meta", output_loading_info=True
        )
        # No vector depends on the pooler of an encoder.
        lacking = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
        if lacking:
            raise UsageError(f"{part} lacks {len(lacking)} weights of {architecture.__name__}, {lacking[0]} first")
