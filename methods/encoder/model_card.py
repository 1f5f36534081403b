"""What the card of a model (the front matter of its README.md) declares. No framework is needed for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Facts of a card that a reader of a result wants to know: what it was trained on, and what it may be used for.
_FACTS = {"license": "license", "base_model": "base_model", "datasets": "training_sets", "language": "language"}


def read_card(folder: Path) -> dict[str, Any]:
    """The facts that the card of a model declares, as JSON values; empty without a card."""
    from huggingface_hub import ModelCard

    try:
        data = ModelCard((folder / "README.md").read_text(encoding="utf-8"), ignore_metadata_errors=True).data.to_dict()
    except (OSError, ValueError):
        return {}
    return {name: _plain(data[key]) for key, name in _FACTS.items() if data.get(key)}


def _plain(value: Any) -> Any:
    return [str(each) for each in value] if isinstance(value, list) else str(value)
