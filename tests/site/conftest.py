"""Chromium, in which the tests of this folder open pages."""

import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    """Chromium; without it or playwright, tests are skipped."""
    playwright = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield found
        found.close()
