"""Checks of charts."""

import xml.etree.ElementTree as ET

import pytest

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="session")
def check_boxes():
    """Raise an error unless all texts of a chart, with letters at their widest, lie in it and apart."""

    def check(drawing):
        root = ET.fromstring(drawing)
        width, height = float(root.get("width")), float(root.get("height"))
        found = []
        for element in root.iter(f"{SVG}text"):
            size = float(element.get("font-size", root.get("font-size")))
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
