"""Attributes of objects as files."""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csc_matrix, csr_matrix, random

from xmcbench.errors import DataError, MethodError
from xmcbench.storage.tensors import load_state, save_state


class Owner:
    """A class of this module, whose objects can be kept."""


@dataclass(frozen=True)
class Inner:
    """A value of another class of the module."""

    size: int
    items: list


def test_values_come_back_as_they_were(tmp_path):
    shared = np.arange(6, dtype=np.int32)
    matrix = csr_matrix(random(5, 4, 0.5, random_state=0, dtype=np.float32))
    values = {
        "plain": [None, True, 3, 0.1, float("inf"), "ä\ud7ff", []],
        "pair": (1, ("a", [2.5])),
        "names": {"a": 1, "b": {"c": (2,)}},
        "numbers": {3: "three", (1, 2): "pair"},
        "array": shared,
        "view": {"same": shared},
        "column": np.asfortranarray(np.ones((3, 2))),
        "empty": np.empty((0, 3), np.float32),
        "scalar": np.float32(0.1),
        "flags": np.array([True, False]),
        "rows": matrix,
        "columns": csc_matrix(matrix),
        "words": pa.array(["", "über", "b"], pa.large_string()),
        "no words": pa.array([], pa.large_string()),
        "slice": pa.array(["a", "bc", "d"], pa.large_string())[1:],
        "inner": Inner(2, [np.zeros(1)]),
    }
    save_state(tmp_path, values, Owner)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    found = load_state(tmp_path, Owner)
    assert list(found) == list(values)
    for name in ("plain", "pair", "names", "numbers"):
        assert found[name] == values[name]
        assert repr(found[name]) == repr(values[name])
    for name in ("array", "column", "empty", "scalar", "flags"):
        assert found[name].dtype == values[name].dtype
        assert np.array_equal(found[name], values[name])
    assert found["view"]["same"] is found["array"], "it is written once"
    for name in ("rows", "columns"):
        assert type(found[name]) is type(values[name])
        assert found[name].shape == matrix.shape
        assert (found[name] != values[name]).nnz == 0
    for name in ("words", "no words", "slice"):
        assert found[name].equals(values[name])
    assert (type(found["inner"]), found["inner"].size) == (Inner, 2)


def refer_to_itself():
    values = []
    values.append(values)
    return values


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (print, "its attribute model.left is of type builtins.builtin_function_or_method"),
        (Owner, "its attribute model.left is of type builtins.type"),
        (np.array(["text"]), "its attribute model.left is an array of type <U4"),
        (np.array([None]), ".* is an array of type object"),
        ({"a": [json.JSONDecoder()]}, r"its attribute model.left\['a'\]\[0\] is of type json.decoder.JSONDecoder"),
        (refer_to_itself(), r"its attribute model.left\[0\] refers to itself"),
        ({1, 2}, ".* is of type builtins.set"),
    ],
    ids=["function", "class", "texts", "objects", "inside", "loop", "set"],
)
def test_what_cannot_be_kept_is_named(tmp_path, value, said):
    holder = Owner()
    holder.left = value
    with pytest.raises(MethodError, match=f"Owner does not keep its trained state: {said}.*defines save and load"):
        save_state(tmp_path, {"model": holder}, Owner)


@pytest.mark.parametrize(
    "value",
    [
        {"object": ["subprocess", "Popen", {}]},
        {"object": ["", "np.ndarray", {}]},
        {"object": ["", "json.JSONDecoder", {}]},
        {"object": ["", "test_values_come_back_as_they_were", {}]},
        {"object": ["", "Missing", {}]},
        {"array": "7"},
        {"sparse": ["load_npz", [], [1, 1]]},
        {"unknown": 1},
    ],
    ids=str,
)
def test_only_known_values_are_read(tmp_path, value):
    save_state(tmp_path, {}, Owner)
    (tmp_path / "state.json").write_text(json.dumps({"class": "Owner", "attributes": {"model": value}}))
    with pytest.raises(DataError, match="state.json is not the state of Owner"):
        load_state(tmp_path, Owner)


def test_the_state_of_another_class_is_refused(tmp_path):
    save_state(tmp_path, {"model": 1}, Inner)
    with pytest.raises(DataError, match="state.json is not the state of Owner: it is that of Inner"):
        load_state(tmp_path, Owner)


def test_damaged_files_are_one_error(tmp_path):
    save_state(tmp_path, {"model": np.arange(3)}, Owner)
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(DataError, match="state.json is not the state of Owner"):
        load_state(tmp_path, Owner)
    save_state(tmp_path, {"model": np.arange(3)}, Owner)
    (tmp_path / "state.safetensors").write_bytes(b"x")
    with pytest.raises(DataError, match="cannot read .*state.safetensors"):
        load_state(tmp_path, Owner)
