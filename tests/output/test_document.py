"""HTML pages: what a browser may load and run."""

import base64
import hashlib
import re

import pytest

from xmcbench.output import document


def digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("script", ["", '"use strict";\n'])
def test_a_page_allows_its_own_style_and_script_only(script):
    page = document.page("t", ["<main></main>"], style="p { color: red }\n", script=script, mark="made by -- x")
    (policy,) = re.findall('<meta http-equiv="Content-Security-Policy" content="(.*)">', page)
    (style,) = re.findall("(?s)<style>(.*?)</style>", page)
    scripts = re.findall("(?s)<script>(.*?)</script>", page)
    assert style.endswith("p { color: red }\n")
    assert len(scripts) == bool(script)
    own = [f"style-src {digest(style)}", *(f"script-src {digest(text)}" for text in scripts)]
    assert policy.split("; ") == [
        "default-src 'none'",
        "img-src data:",
        *own,
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert page.index(policy) < page.index("<style>")
    assert 'style="' not in page
