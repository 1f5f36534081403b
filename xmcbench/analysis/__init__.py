"""Analysis of stored results: where two rows differ, what a row predicts, how much data it takes."""
