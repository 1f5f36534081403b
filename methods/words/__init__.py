"""Words and their vectors: vocabulary, co-occurrence counts, the GloVe trainer, files of vectors, texts as means."""
