"""Arrow arrays from numpy and back, without pandas."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import xmcbench
from xmcbench import Options, arrow

NUMBERS = st.sampled_from([np.int8, np.int32, np.int64, np.uint8, np.float32, np.float64])


@given(NUMBERS.flatmap(lambda dtype: arrays.arrays(dtype, st.integers(0, 20))), st.integers(0, 20), st.integers(1, 3))
def test_values_come_back_and_so_does_a_part_of_them(values, start, step):
    found = arrow.from_numpy(values[::step])
    assert found.type == pa.from_numpy_dtype(values.dtype)
    back = arrow.to_numpy(found.slice(start))
    assert back.dtype == values.dtype
    np.testing.assert_array_equal(back, values[::step][start:])


def test_truth_values_are_refused():
    """They are bits in Arrow and bytes in numpy."""
    with pytest.raises(ValueError, match="bool"):
        arrow.from_numpy(np.array([True, False, True]))
    with pytest.raises(ValueError, match="bool"):
        arrow.to_numpy(pa.array([True, False, True]))


def test_nulls_have_no_place_in_numpy():
    with pytest.raises(ValueError, match="nulls"):
        arrow.to_numpy(pa.array([1, None]))


@given(st.one_of(st.integers(-(2**31), 2**31 - 1), st.text()))
def test_a_scalar_is_pyarrows(value):
    expected = pa.scalar(value, pa.int32() if isinstance(value, int) else pa.large_string())
    found = arrow.scalar(value)
    assert found.equals(expected)
    assert found.type == expected.type


METHOD = """
import sys
from xmcbench.methods.{module} import {cls}

class Watched({cls}):
    '''A method that says what was imported.'''

    def predict(self, raw_X, k=100):
        found = super().predict(raw_X, k)
        self.notes["imported"] = [name for name in ("numpy", "pandas") if name in sys.modules]
        return found
"""


@pytest.mark.parametrize(("module", "cls"), [("tfidf", "Tfidf"), ("bm25", "BM25")])
def test_a_cell_of_a_cheap_method_does_not_import_pandas(tiny, plugin, tmp_path, monkeypatch, module, cls):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    options = Options(plugins=(plugin(METHOD.format(module=module, cls=cls), "watched.py"),))
    results = xmcbench.run(tiny, "ez", methods=["watched"], options=options)
    assert results.records[0].notes["imported"] == ["numpy"]
