"""Transformer encoders: the backbone, its tokens, its embeddings, and the loop that trains it."""
