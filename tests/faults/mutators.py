"""Damage and hostility, seeded: what can become of a file on the way, and what somebody could send on purpose."""

import copy
import io
import json
import random
import re
import struct
import zipfile
import zlib
from functools import cache

import numpy as np

#: Texts that do something where they are shown, or that no file can hold.
HOSTILE_TEXTS = (
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "\u202egnp.exe",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "a | b\n| --- |\n# heading",
    "\\input{/etc/passwd}$$%",
    "=cmd|' /C calc'!A0",
    "\x00",
    "\ufeff",
    "a\u2028b\u0085c",
    "\u200d\u00a0",
    "x" * 100_000,
    "",
    "../../../etc/passwd",
    "nan",
    "&lt;b&gt; &#60;",
)
NUMBERS = (
    "-1",
    "0",
    "1e308",
    "-1e308",
    "1e999",
    "NaN",
    "99999999999999999999",
    "9" * 5000,
    "2147483648",
    "0.5",
    "-0",
    "",
)
VALUES = (None, [], {}, "", -1, 0, 1, 1e308, -1e308, 0.5, 2**31, 2**63, 10**30, True, [[]], {"a": {"b": []}}, ["x", 1])


def deep(depth=3000):
    """A value that only text can hold: so many lists in each other."""
    return "[" * depth + "]" * depth


# bytes


def cut(data, chance):
    return data[: chance.randrange(len(data) + 1)]


def flip_bits(data, chance):
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 8, 64))):
        if made:
            made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
    return bytes(made)


def swap_chunks(data, chance):
    places = sorted(chance.randrange(len(data) + 1) for _ in range(4))
    a, b, c, d = places
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def repeat_chunk(data, chance):
    a, b = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:b] + data[a:b] * chance.choice((1, 2, 20)) + data[b:]


def drop_chunk(data, chance):
    a = chance.randrange(len(data) + 1)
    return data[:a] + data[a + chance.choice((1, 2, 16, 500)) :]


def blank_chunk(data, chance):
    a = chance.randrange(len(data) + 1)
    length = min(chance.choice((1, 4, 64, 1000)), len(data) - a)
    return data[:a] + chance.choice((b"\0", b"\xff", b" ")) * length + data[a + length :]


def insert(data, chance):
    a = chance.choice((0, 0, len(data), chance.randrange(len(data) + 1)))
    junk = (
        b"\0",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\x1b[2J",
        b"\r",
        b"\n\n",
        b"\xe2\x80\xae",
    )
    return data[:a] + chance.choice((*junk, chance.randbytes(30))) + data[a:]


def other_content(data, chance):
    found = (
        b"",
        b"\0" * 100,
        chance.randbytes(200),
        b"PK\x05\x06" + b"\0" * 18,
        b"\x80\x04]\x94.",
        b"{}",
        b"[]",
        b"null",
    )
    return chance.choice(
        (*found, data.decode("latin-1").encode("utf-16"), deep().encode(), b'{"a":' * 3000, b"1" * 6000)
    )


BYTES = (cut, flip_bits, flip_bits, swap_chunks, repeat_chunk, drop_chunk, blank_chunk, insert, other_content)


def damage(data, chance):
    """Bytes with one kind of damage, sometimes two."""
    for _ in range(chance.choice((1, 1, 1, 2))):
        data = chance.choice(BYTES)(data, chance)
    return data


# text


def change_number(text, chance):
    found = list(re.finditer(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", text))
    if not found:
        return text
    one = chance.choice(found)
    return text[: one.start()] + chance.choice(NUMBERS) + text[one.end() :]


def change_string(text, chance):
    found = list(re.finditer(r'"[^"\n]*"', text))
    if not found:
        return text
    one = chance.choice(found)
    hostile = chance.choice(HOSTILE_TEXTS)
    shown = (hostile, json.dumps(hostile), '"\\ud800"', '"' + hostile + '"', "'" + hostile, deep())
    return text[: one.start()] + chance.choice(shown) + text[one.end() :]


def change_line(text, chance):
    lines = text.split("\n")
    place = chance.randrange(len(lines))
    line = lines[place]
    lines[place : place + 1] = chance.choice(
        ([], [line, line], [""], [line * 50], [line[: len(line) // 2]], [line, "]]"])
    )
    return "\n".join(lines)


def wild_text(data, chance):
    """The bytes of a text file, changed as text, or as bytes."""
    if chance.random() < 0.3:
        return damage(data, chance)
    text = data.decode()
    for _ in range(chance.choice((1, 1, 2))):
        text = chance.choice((change_number, change_string, change_string, change_line))(text, chance)
    return text.encode("utf-8", "surrogatepass")


# JSON values


def _place(value, chance):
    """A way into a JSON value: every field of an object is as likely, however much it holds."""
    path = []
    while isinstance(value, dict | list) and value and (not path or chance.random() < 0.7):
        step = chance.choice([*value]) if isinstance(value, dict) else chance.randrange(len(value))
        path.append(step)
        value = value[step]
    return path


def wild_value(value, chance):
    """A JSON value with something in it replaced, removed or added."""
    made = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        path = _place(made, chance)
        if not path:
            return made
        *above, last = path
        parent = made
        for step in above:
            parent = parent[step]
        kind = chance.randrange(8)
        if kind == 0:
            del parent[last]
        elif kind == 1 and isinstance(parent, dict):
            parent[chance.choice(HOSTILE_TEXTS)] = copy.deepcopy(parent[last])
        elif kind == 2:
            parent[last] = chance.choice(HOSTILE_TEXTS)
        elif kind in (3, 4, 5) and isinstance(parent[last], int | float) and not isinstance(parent[last], bool):
            parent[last] *= chance.choice((-1, 2, 3, 1e12, 1e300, 0, 0.999))
        else:
            parent[last] = copy.deepcopy(chance.choice(VALUES))
    return made


# packed files


@cache
def _zeros_deflated(mebibytes):
    """A raw deflate stream of so many MiB of zeros, without deflating them all: a flushed block can be repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(b"\0" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * mebibytes + zlib.compressobj(9, zlib.DEFLATED, -15).flush()


@cache
def gzip_bomb(mebibytes, line):
    """A gzip file that begins with ``line`` and goes on for so many MiB without a line end."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = packer.compress(line) + packer.flush(zlib.Z_FULL_FLUSH)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(b"a" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    body = head + block * mebibytes + zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + body + b"\0" * 8


def zip_bomb(name, mebibytes, declared=None, header=b""):
    """An archive with one member of zeros behind ``header``; ``declared`` is the size that it is said to have."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(header) + packer.flush(zlib.Z_FULL_FLUSH) + _zeros_deflated(mebibytes)
    size = (mebibytes << 20) + len(header) if declared is None else declared
    size = min(size, 2**32 - 2)
    encoded = name.encode()
    facts = struct.pack("<HHHHHIII", 20, 0, 8, 0, 0, 0, len(body), size)
    local = b"PK\x03\x04" + facts + struct.pack("<HH", len(encoded), 0) + encoded
    entry = (
        b"PK\x01\x02"
        + struct.pack("<H", 20)
        + facts
        + struct.pack("<HHHHHII", len(encoded), 0, 0, 0, 0, 0, 0)
        + encoded
    )
    start = len(local) + len(body)
    return local + body + entry + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), start, 0)


def npy_header(shape, dtype="<i4", order=False):
    """The beginning of an .npy member, which may ask for anything."""
    text = repr({"descr": dtype, "fortran_order": order, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text


def _change_array(array, chance):
    """An array of another type or shape, or with other values."""
    others = (
        lambda: _of_another_type(array, chance),
        lambda: array.reshape(-1),
        lambda: array[None],
        lambda: array[: len(array) // 2] if array.ndim else array,
        lambda: np.zeros((), array.dtype),
        lambda: np.array([{"a": print}], object),
        lambda: np.zeros((0, *array.shape[1:]), array.dtype),
        lambda: np.zeros(3, [("a", "<i4"), ("b", "<f4")]),
        lambda: np.asfortranarray(array),
        *[lambda: _with_other_values(array, chance)] * 5,
    )
    return chance.choice(others)()


def _of_another_type(array, chance):
    kinds = ("<f8", "<i8", ">i4", "<f2", "<c16", "?", "<U5", "S3", "<M8[s]", "V4")
    with np.errstate(all="ignore"):
        try:
            return array.astype(chance.choice(kinds))
        except (ValueError, TypeError, OverflowError):
            return array.astype("S3")  # what any array can become


def _with_other_values(array, chance):
    flat = array.reshape(-1).copy()
    if len(flat):
        place = chance.randrange(len(flat))
        whole = flat.dtype.kind in "iu"
        limits = np.iinfo(flat.dtype) if whole else np.finfo(np.float32)
        extreme = [limits.max, limits.min, 0, 1, *([] if whole else [np.nan, np.inf, -np.inf])]
        flat[place : place + chance.choice((1, 1, 5, len(flat)))] = chance.choice(extreme)
    return flat.reshape(array.shape)


def wild_npz(data, chance):
    """The bytes of an .npz file with its arrays, its archive or its bytes changed."""
    kind = chance.randrange(10)
    if kind < 3:
        return damage(data, chance)
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    name = chance.choice([*arrays])
    if kind == 3:
        return zip_bomb(
            f"{name}.npy",
            chance.choice((64, 3000)),
            chance.choice((None, 100, 2**31)),
            chance.choice(
                (
                    npy_header((chance.choice((10**9, 786_432_000, -5, 10**30)),)),
                    npy_header((64 << 18,)),
                    b"",
                    npy_header((5, 5), "|O"),
                )
            ),
        )
    if kind == 4:
        del arrays[name]
    elif kind == 5:
        arrays[chance.choice(("extra", "../x", "ranks+none", name + "2"))] = np.arange(5)
    else:
        arrays[name] = _change_array(arrays[name], chance)
    stream = io.BytesIO()
    with zipfile.ZipFile(
        stream, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    ) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=True)
            content = member.getvalue()
            if kind == 6 and key == name:
                end = content.index(b"\n") + 1
                shape = chance.choice(((10**12,), (-1,), (2, 10**9), (*array.shape, 0), (True,), (2**70,)))
                content = npy_header(shape, chance.choice(("<i4", "<f4", "|O", "|u1", ">f8", "bad"))) + content[end:]
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), content)
    return stream.getvalue()


def wild_gzip(data, chance, line=b'{"uid": "'):
    """The bytes of a gzip file of text: its text changed, its bytes damaged, or a line without end."""
    import gzip

    kind = chance.random()
    if kind < 0.25:
        return damage(data, chance)
    if kind < 0.28:
        return gzip_bomb(chance.choice((20, 400)), line)
    return gzip.compress(wild_text(gzip.decompress(data), chance), 1)


def chance_of(kind, seed, trial):
    """The random numbers of one trial."""
    return random.Random(f"{kind} {seed} {trial}")
