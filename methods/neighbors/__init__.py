"""What the training instances nearest to a text say about its labels."""
