"""What stored results say beyond their figures: where two rows differ, what a row predicts, how much data it takes."""
