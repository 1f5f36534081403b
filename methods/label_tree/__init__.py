"""Trees of labels: balanced clusters, levels, shortlists of clusters, and linear classifiers on them."""
