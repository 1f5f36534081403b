"""Real data for the metrics."""

import pytest

from xmcbench.data.xc_matrix import read_filter, read_matrix


@pytest.fixture(scope="session")
def amazon_titles(real_data):
    """Test pairs and test filter, CSR [134835, 131073] each, of the real LF-AmazonTitles-131K."""
    folder = real_data("LF-AmazonTitles-131K")
    truth = read_matrix(folder / "tst_X_Y.txt.gz")
    return truth, read_filter(folder / "tst_filter_labels.txt.gz", *truth.shape)
