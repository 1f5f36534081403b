"""Records made by hand, as the runner would write them."""

import xml.etree.ElementTree as ET

import pytest

from xmcbench.leaderboard.tables import MAIN, SECOND
from xmcbench.records import Cell
from xmcbench.setting import Setting

SVG = "{http://www.w3.org/2000/svg}"
METRICS = (*MAIN, *SECOND)


def _scores(value, half_width):
    return {
        "values": dict.fromkeys(METRICS, value),
        "intervals": {name: [value - half_width, value + half_width] for name in METRICS},
        "scored": 30,
        "unlabelled": 0,
    }


@pytest.fixture
def record():
    """A record of the dataset Tiny; every metric has the same value."""

    def make(
        method="tfidf",
        seed=0,
        value=0.5,
        half_width=0.03,
        status="ok",
        setting=None,
        processor="P",
        supervision="optional",
        views=("head", "middle", "tail"),
        notes=None,
        **parameters,
    ):
        few = setting is not None and setting.kind == "fs"
        cell = Cell(
            "Tiny", "d" * 64, setting or Setting.of("ez"), f"{seed}" * 64 if few else None, method, parameters, seed
        )
        made = {
            "schema": 1,
            "key": cell.key,
            "cell": cell.identity(),
            "method": {
                "title": method.upper(),
                "variant": ", ".join(f"{name}={each}" for name, each in parameters.items()),
                "supervision": supervision,
            },
            "protocol": {"version": 1, "filter": "self"},
            "counts": {"train": 60, "test": 30, "labels": 10, "train_pairs": 120, "test_pairs": 60},
            "subset": {"name": "s", "sha256": "e", "pairs": 12, "labels": 5, "instances": 12} if few else None,
            "notes": notes or {},
            "status": status,
            "reason": "" if status == "ok" else "ValueError: no",
            "environment": {
                "hardware": {"processor": processor, "cores": 2, "memory_gib": 24, "accelerators": [], "system": "x"}
            },
            "measured": {
                "wall_s": {"fit": 1.5, "pretrain": 2.0, "predict": 1.0},
                "reused_s": 0.25,
                "predict_ms_per_instance": 0.5,
                "peak_memory_bytes": 2**30,
            },
        }
        if status == "ok":
            scores = _scores(value, half_width)
            made["metrics"] = {"self": {**scores, "views": {view: _scores(value, half_width) for view in views}}}
        return made

    return make


@pytest.fixture(scope="session")
def check_boxes():
    """Raises unless all texts of a drawing, with the letters at their widest, lie in it and apart from each other."""

    def check(drawing):
        root = ET.fromstring(drawing)
        width, height = float(root.get("width")), float(root.get("height"))
        found = []
        for element in root.iter(f"{SVG}text"):
            size = float(element.get("font-size", "13"))
            wide, x, y = 0.56 * size * len(element.text), float(element.get("x")), float(element.get("y"))
            y += float(element.get("dy", "0"))
            x -= {"middle": wide / 2, "end": wide}.get(element.get("text-anchor"), 0)
            found.append((x, y - 0.75 * size, x + wide, y + 0.25 * size, element.text))
        for left, top, right, bottom, text in found:
            assert 0 <= left < right <= width, text
            assert 0 <= top < bottom <= height, text
        for i, one in enumerate(found):
            for other in found[:i]:
                apart = one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]
                assert apart, (one, other)

    return check
