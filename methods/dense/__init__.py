"""Dense vectors: what methods that embed instances and labels share once the embeddings exist."""
