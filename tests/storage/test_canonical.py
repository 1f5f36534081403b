"""JSON in one form: what digests and keys are made of."""

import hashlib

import pytest

from xmcbench.storage.canonical import canonical_json, sha256_file, sha256_json


def test_one_value_has_one_form():
    assert canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'
    assert sha256_json({"b": 1, "a": 2}) == sha256_json({"a": 2, "b": 1})
    assert sha256_json("é") == hashlib.sha256('"é"'.encode()).hexdigest()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_json_has_none(value):
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"x": value})


def test_the_digest_of_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert sha256_file(tmp_path / "file") == hashlib.sha256(b"x" * 3_000_000).hexdigest()
