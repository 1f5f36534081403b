"""Presets of GloVe."""

from __future__ import annotations

#: Training instances held out from training: what values are chosen on.
_DEV = "xmcbench run --dataset lf-debian-20k-dev --setting ez --methods glove"

PRESETS: dict[str, dict[str, object]] = {
    "quick": {"epochs": 25, "x_max": 10.0, "normalize": True},
    "paper": {"epochs": 100, "x_max": 100.0, "normalize": False},
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "quick": (f"{_DEV}:quick\n{_DEV}:quick --set glove.x_max=100\n{_DEV}:quick --set glove.normalize=false"),
    "paper": "Pennington et al. 2014, section 4.2; the inner product is MACLR's, section 5.1",
}
