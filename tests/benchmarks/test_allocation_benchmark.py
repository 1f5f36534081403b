"""A method that makes many large arrays, with the settings of malloc that a cell has and with glibc's own.

The bar: Astec's fit on LF-Debian-20K is at least 1.2 times as fast.
"""

from __future__ import annotations

import pytest

from xmcbench.api import Options, run

BAR = 1.2
#: What glibc arrives at by itself once large arrays have been freed.
OWN = {"MALLOC_MMAP_THRESHOLD_": 2**25, "MALLOC_TRIM_THRESHOLD_": 2**26}


@pytest.mark.timeout(1800)
@pytest.mark.benchmark(group="large arrays")
def test_astec(benchmark, tmp_path, monkeypatch):
    measured = {}

    def fit(name):
        made = run(
            "lf-debian-20k",
            "full",
            methods=["astec"],
            set={"astec": {"epochs": 1, "classifier_epochs": 1}},
            options=Options(runs=tmp_path / name),
        )
        assert made.ok
        (measured[name],) = (record.measured for record in made.records)

    with monkeypatch.context() as own:
        for variable, size in OWN.items():
            own.setenv(variable, str(size))
        fit("own")
    benchmark.pedantic(fit, args=("ours",), rounds=1)
    benchmark.extra_info["ratio"] = ratio = measured["own"].wall_s["fit"] / measured["ours"].wall_s["fit"]
    peaks = {name: each.peak_memory_bytes / 2**30 for name, each in measured.items()}
    print(f"\n{ratio:.2f} times as fast; peak memory {peaks['ours']:.2f} GiB, {peaks['own']:.2f} GiB with glibc's own")
    assert ratio >= BAR
