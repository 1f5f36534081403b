"""The metric protocol, version 1: how predictions become numbers.

**Input.** For every test row a list of predicted labels, best first, equal scores ordered by the lower label id. The
true pairs are a binary matrix [test rows, labels]. Nothing is ranked again here: the order of the predictions counts.

**Filter.** ``none``; ``self`` (the row's own item among the labels); ``file`` (the data set's reciprocal pairs).
A filter removes predictions, never true labels, and the list closes up. So that 100 predictions are left, a method is
asked for 100 + the longest filter of any row, and the list is cut to 100 after the filter.

**Rows.** Averages run over all test rows with at least one true label. Rows without one are left out and counted.
A row with fewer than k predictions is padded with misses: P@k still divides by k, and a row without any prediction
scores 0.

**Metrics**, with T the true labels of a row and hit(r) = 1 where the prediction at rank r is in T:

* P@k     sum of hit(r), r <= k, divided by k.
* R@k     sum of hit(r), r <= k, divided by |T|.
* nDCG@k  sum of hit(r) / log2(r + 1), r <= k, divided by the same sum of an ideal list, which has min(k, |T|) hits.
* PSP@k   a ratio of data-set sums, not a mean of ratios: the inverse propensities of the hits at r <= k, divided by k,
  summed over rows; over the best that any list could attain, the min(k, |T|) largest inverse propensities of T,
  divided by k, summed over rows.

Inverse propensity of a label (Jain et al., KDD 2016): 1 + C (n + B)^-A with C = (ln N - 1)(B + 1)^A; N rows and n pairs
of that label in the full training matrix, also where the method saw only a part of it. A and B stand on the data card.

All values are fractions in [0, 1]; tables print them in per cent. Intervals are 95 % percentile bootstrap intervals
over the scored rows: 1,000 samples, or 200 beyond 200,000 rows.

A change that can change a number raises ``VERSION``, which stands in every record and under every table.
"""

from __future__ import annotations

from typing import NamedTuple

#: The version of the protocol above.
VERSION = 1

#: Predictions a row that are scored, after filters; the largest k of any metric.
DEPTH = 100

#: The protocol in one line, for the foot of a table.
SUMMARY = (
    f"metric protocol {VERSION}: P@k / k, R@k / true labels, nDCG@k ideal of min(k, true labels), PSP@k ratio of sums; "
    f"mean over rows with a label; ties by lower label id; filters applied before the cut at {DEPTH}"
)


class Metric(NamedTuple):
    """One column of a results table."""

    family: str
    k: int
    description: str
    higher_is_better: bool


_FAMILIES = {
    "P": ((1, 3, 5), "precision: the share of the first {k} predictions that are true labels"),
    "R": ((1, 3, 5, 10, 100), "recall: the share of a row's true labels among the first {k} predictions"),
    "nDCG": ((1, 3, 5), "normalised discounted cumulative gain of the first {k} predictions"),
    "PSP": ((1, 3, 5), "propensity-scored precision of the first {k} predictions: rare labels weigh more"),
}

#: Every metric by name, in the order of the tables.
METRICS: dict[str, Metric] = {
    f"{family}@{k}": Metric(family, k, description.format(k=k), True)
    for family, (depths, description) in _FAMILIES.items()
    for k in depths
}
