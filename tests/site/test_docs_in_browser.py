"""The documentation in a browser: no request, every page fits the window, and its text can be read.

Run by `tox -e site`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

axe = pytest.importorskip("axe_core_python.sync_playwright")
pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[2]
SCHEMES = {"light": "default", "dark": "slate"}
#: Elements that end beyond the window and are in no box that scrolls or cuts off by itself.
BEYOND = """() => {
  const boxed = (element) => {
    for (let box = element.parentElement; !box.matches("article"); box = box.parentElement)
      if (getComputedStyle(box).overflowX !== "visible") return true;
    return false;
  };
  return [...document.querySelectorAll("article *")]
    .filter((element) => element.getBoundingClientRect().right > innerWidth && !boxed(element))
    .map((element) => element.outerHTML.slice(0, 200));
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-P", "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, check=True, env=environment)
    return folder


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1280, 400])
def test_a_page_fits_and_can_be_read(browser, site, width, scheme):
    noise = []
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    page = context.new_page()
    page.on("console", lambda message: noise.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("request", lambda request: noise.append(request.url) if not request.url.startswith("file:") else None)
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("index.html"))
    assert len(names) > 20
    for name in names:
        page.goto((site / name).as_uri())
        assert page.evaluate("document.body.dataset.mdColorScheme") == SCHEMES[scheme]
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width, name
        assert page.evaluate(BEYOND) == [], name
        options = {"resultTypes": ["violations"], "runOnly": ["color-contrast"]}
        found = axe.Axe().run(page, options=options)["violations"]
        nodes = [node for violation in found for node in violation["nodes"]]
        assert {(node["html"][:200], node["any"][0]["message"]) for node in nodes} == set(), name
    context.close()
    assert noise == []
