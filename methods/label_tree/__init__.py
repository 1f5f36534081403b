"""Trees of labels by libpecos: how they are built, their levels, shortlists of clusters, and linear rankers on them."""
