"""Real data for the metrics."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix


@pytest.fixture(scope="session")
def amazon_titles():
    """Test pairs and test filter, CSR [134835, 131073] each, of the real LF-AmazonTitles-131K."""
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("XMCBENCH_TEST_DATA", root / "../shared/data")) / "LF-AmazonTitles-131K"
    if not folder.is_dir():
        pytest.skip(
            f"no {folder}: take LF-AmazonTitles-131K from http://manikvarma.org/downloads/XC/XMLRepository.html "
            "and set XMCBENCH_TEST_DATA to the folder above it"
        )
    with gzip.open(folder / "tst_X_Y.txt.gz", "rt") as stream:
        shape = tuple(map(int, stream.readline().split()))
        lists = [[int(pair.split(":")[0]) for pair in line.split()] for line in stream]
    rows = np.repeat(np.arange(len(lists)), [len(labels) for labels in lists])
    truth = csr_matrix((np.ones(len(rows), np.float32), (rows, np.concatenate(lists).astype(np.int64))), shape=shape)
    removed = np.loadtxt(folder / "tst_filter_labels.txt.gz", np.int64)
    return truth, csr_matrix((np.ones(len(removed), np.float32), removed.T), shape=shape)
