"""The metric protocol, version 3: how predictions become numbers.

**Input.** For every test row there is a list of predicted labels, best first, with equal scores ordered by the lower
label id. The true pairs are a binary matrix [test rows, labels]. Nothing is ranked again: the order of the predictions
counts.

**Filter.** ``none``; ``self`` (the row's own item among the labels); or ``file`` (the dataset's reciprocal pairs). A
filter removes predictions, never true labels, and the list closes up. A method is asked for 100 + the longest filter of
any row, so that 100 predictions are left, and the list is cut to 100 after the filter.

**Rows.** Averages are over all test rows with at least one true label. Rows without one are left out and counted. A row
with fewer than k predictions is padded with misses: P@k still divides by k, and a row without any prediction scores 0.

**Metrics**, where T is the set of true labels of a row, and hit(r) = 1 if the prediction at rank r is in T:

* P@k     sum of hit(r), r <= k, divided by k.
* R@k     sum of hit(r), r <= k, divided by |T|.
* nDCG@k  sum of hit(r) / log2(r + 1), r <= k, divided by the same sum of an ideal list, which has min(k, |T|) hits.
* PSP@k   a ratio of sums over the dataset, not a mean of ratios. The numerator is the inverse propensities of the hits
  at r <= k, divided by k, summed over rows. The denominator is the best that any list could attain: the min(k, |T|)
  largest inverse propensities of T, divided by k, summed over rows.

The inverse propensity of a label (Jain et al., KDD 2016) is 1 + C (n + B)^-A with C = (ln N - 1)(B + 1)^A, where N is
the number of rows and n the number of pairs of that label in the full training matrix, even if the method saw only a
part of it. A and B are on the dataset's card.

All values are fractions in [0, 1]; tables print them in percent.

**Intervals** are 95% intervals over the scored rows: bias-corrected and accelerated bootstrap intervals (BCa; Efron,
1987) from 1,000 samples, and for more than 10,000 rows their closed form for many rows (Hall, 1988). They contain the
value. If all rows score alike, both ends are the value. They do not cover what another seed would change.

**Versions.** They differ in the intervals only, and all values are the same. Version 1 had percentile intervals, and
version 2 drew samples of any number of rows. ``VERSION`` is in every record and under every table. A change that can
change a number raises it.
"""

from __future__ import annotations

from typing import NamedTuple

#: The version of the protocol above.
VERSION = 3

#: How many predictions of a row are scored, after filters. No metric has a larger k.
DEPTH = 100


class Metric(NamedTuple):
    """One column of a results table; more is better."""

    family: str
    k: int
    description: str


_FAMILIES = {
    "P": ((1, 3, 5), "precision: the share of the first {k} predictions that are true labels"),
    "R": ((1, 3, 5, 10, 100), "recall: the share of a row's true labels among the first {k} predictions"),
    "nDCG": ((1, 3, 5), "normalized discounted cumulative gain of the first {k} predictions"),
    "PSP": ((1, 3, 5), "propensity-scored precision of the first {k} predictions: rare labels weigh more"),
}

#: Every metric by name, in the order of the tables.
METRICS: dict[str, Metric] = {
    f"{family}@{k}": Metric(family, k, description.format(k=k))
    for family, (depths, description) in _FAMILIES.items()
    for k in depths
}
