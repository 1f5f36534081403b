import pytest


@pytest.fixture
def made(tmp_path):
    """Write files into a folder, by path: text, bytes, or lines."""

    def write(files, name="set"):
        for path, content in files.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            text = "".join(f"{line}\n" for line in content) if isinstance(content, list) else content
            target.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / name

    return write
