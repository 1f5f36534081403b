"""Transformer encoders: the backbone, its tokens, its embeddings, and the loop that trains it."""

from __future__ import annotations

#: What its modules need: import name -> what to ``pip install``.
PACKAGES = {
    "torch": "torch",
    "transformers": "transformers",
    "tokenizers": "tokenizers",
    "safetensors": "safetensors",
    "accelerate": "accelerate",
    "huggingface_hub": "huggingface-hub",
    "httpx": "httpx",
}
#: What sentence-transformers runs a model with.
SENTENCE_TRANSFORMERS = {
    "sentence_transformers": "sentence-transformers",
    **{name: package for name, package in PACKAGES.items() if name != "accelerate"},
}
#: Variables with the user's token for the hub, from which checkpoints are downloaded.
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
