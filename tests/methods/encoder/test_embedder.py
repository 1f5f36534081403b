"""Models of every kind that sentence-transformers runs, tiny ones, against its own vectors."""

import hashlib
import json
import pickle
import shutil

import numpy as np
import pytest
import torch

from xmcbench import Texts, Unavailable, UsageError
from xmcbench.methods.embedder import Embedder
from xmcbench.methods.embedder.folder import check_model, files_sha256
from xmcbench.methods.embedder.model import EmbeddingModel, TextRows
from xmcbench.methods.encoder.hardware import can_pack
from xmcbench.methods.rerank import Rerank
from xmcbench.methods.sentbert import SentBERT

WORDS = ["the", "old", "red", "green", "apple", "bridge", "candle", "desert", "engine", "forest", "garden"]
NEW = ["the old apple", "", "red bridge and green island", "zyzzyva"]


@pytest.fixture
def model(checkpoint, tmp_path):
    """Save a model; returns its folder and the model as it is loaded again."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    def save(*layers, name="model", **options):
        torch.manual_seed(1)
        if not layers:
            layers = modules.Transformer(str(checkpoint(pooling=""))), modules.Pooling(16, "mean")
        SentenceTransformer(modules=list(layers), device="cpu", **options).save(str(tmp_path / name))
        return tmp_path / name, SentenceTransformer(str(tmp_path / name), device="cpu", local_files_only=True)

    return save


@pytest.fixture
def ranked(predicted):
    """Predictions for NEW by the method, and the method."""

    def run(folder, k=10, **values):
        return predicted(Embedder(model=str(folder), **values), NEW, k)

    return run


def open_model(folder, **options):
    """A model on the CPU."""
    options = {"truncate_dim": None, "max_length": None, "prompts": (None, None), **options}
    return EmbeddingModel.open(str(folder), "cpu", backend="torch", precision="fp32", batch=1, **options)


def scores(found, labels=10):
    """Scores by label, [N, labels]."""
    out = np.empty((len(found), labels), np.float32)
    np.put_along_axis(out, found.indices, found.scores, 1)
    return out


def static(width=12):
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[UNK]", *WORDS]
    fast = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.random.default_rng(0).normal(size=(len(words), width)).astype(np.float32)
    return StaticEmbedding(fast, embedding_weights=weights)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_scores_are_the_similarity_of_the_model(model, ranked, stories, similarity):
    prompts = {"query": "the ", "passage": "red "}
    folder, reference = model(prompts=prompts, similarity_fn_name=similarity)
    found, method = ranked(folder)
    queries, labels = reference.encode(NEW, prompt="the "), reference.encode(list(stories[1]), prompt="red ")
    np.testing.assert_allclose(scores(found), reference.similarity(queries, labels).numpy(), atol=1e-5)
    note = method.notes["model"]
    assert note["prompts"] == {"instances": "the ", "labels": "red "}
    assert (note["name"], note["width"], note["similarity"]) == (folder.name, 16, similarity)
    assert note["parameters"] == sum(parameter.numel() for parameter in reference.parameters())
    assert note["sha256"] == files_sha256(folder)
    other, _ = ranked(folder, instance_prompt="", label_prompt="green ")
    queries, labels = reference.encode(NEW, prompt=""), reference.encode(list(stories[1]), prompt="green ")
    np.testing.assert_allclose(scores(other), reference.similarity(queries, labels).numpy(), atol=1e-5)


def test_other_processes_load_the_model_again(model, stories):
    """Two shares of blocks of 8 texts, by two copies of what another process gets."""
    folder, _ = model(similarity_fn_name="euclidean")
    rows = TextRows(open_model(folder, truncate_dim=8, max_length=9, prompts=("the ", None)), stories[0], "instance")
    expected, found = np.full((2, 30, 9), np.nan, np.float32)
    rows.write(expected, 0, 1, "cpu")
    packed = pickle.dumps(rows)
    shares = rows.shares(2)
    assert [len(part) for part in shares] == [16, 14]
    for share, numbers in enumerate(shares):
        pickle.loads(packed).write(found, share, 2, "cpu")
        assert np.isfinite(found[numbers]).all()
        assert np.isfinite(found).all() == (share == 1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_euclidean_distance(model, ranked, stories):
    folder, reference = model(similarity_fn_name="euclidean")
    found, method = ranked(folder)
    similarity = reference.similarity(reference.encode(NEW), reference.encode(list(stories[1]))).numpy()
    assert np.array_equal(found.indices, np.argsort(-similarity, axis=1, kind="stable"))
    assert method.notes["model"]["width"] == 16
    with pytest.raises(
        UsageError, match=r"compared by distance and cannot be stored as float16 \(set stored_as=float32"
    ):
        ranked(folder, stored_as="float16")


def test_a_similarity_that_cannot_be_searched(model, ranked):
    folder, _ = model(similarity_fn_name="manhattan")
    with pytest.raises(UsageError, match="the similarity of .* is 'manhattan'"):
        ranked(folder)


@pytest.mark.parametrize("side", ["instance", "label"])
def test_a_prompt_that_leaves_no_room_for_a_text(model, ranked, side):
    """All texts would have one vector. One token of a text is enough."""
    folder, _ = model()
    values = {f"{side}_prompt": "find the old new red green "}  # eight tokens with [CLS] and [SEP]
    with pytest.raises(UsageError, match=f"the prompt of {side}s fills all 8 tokens of a text") as refused:
        ranked(folder, max_length=8, **values)
    assert refused.value.hint == f"raise max_length, or shorten {side}_prompt"
    ranked(folder, max_length=9, **values)


@pytest.mark.parametrize("by", ["model", "parameter"])
def test_truncation(model, ranked, stories, by):
    folder, reference = model(truncate_dim=5 if by == "model" else None)
    found, method = ranked(folder, **({} if by == "model" else {"truncate_dim": 5}))
    reference.truncate_dim = 5
    expected = reference.similarity(reference.encode(NEW), reference.encode(list(stories[1]))).numpy()
    np.testing.assert_allclose(scores(found), expected, atol=1e-5)
    assert method.notes["model"]["width"] == 5


@pytest.mark.parametrize(("asked", "cut"), [(8, 8), (20, 12)])
def test_a_length(model, predicted, stories, asked, cut):
    """Never more than the model states."""
    from sentence_transformers import SentenceTransformer

    folder, _ = model()
    reference = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    reference.max_seq_length = 12
    reference.save(str(folder))
    reference.max_seq_length = cut
    long = "red apple bridge " * 2 + "green garden engine " * 3
    found, method = predicted(Embedder(model=str(folder), max_length=asked), [long], 10)
    expected = reference.similarity(reference.encode([long]), reference.encode(list(stories[1]))).numpy()
    np.testing.assert_allclose(scores(found), expected, atol=1e-5)
    assert method.notes["model"]["max_seq_length"] == cut


def test_a_router_has_a_way_for_each_side(model, ranked, stories, checkpoint):
    from sentence_transformers.base.modules import Dense, Router
    from sentence_transformers.sentence_transformer import modules

    transformer = [modules.Transformer(str(checkpoint(pooling=""))), modules.Pooling(16, "mean"), Dense(16, 12)]
    folder, reference = model(Router.for_query_document([static()], transformer))
    found, method = ranked(folder)
    similarity = reference.similarity(reference.encode_query(NEW), reference.encode_document(list(stories[1])))
    np.testing.assert_allclose(scores(found), similarity.numpy(), atol=1e-5)
    assert not np.allclose(reference.encode_query(NEW), reference.encode_document(NEW))
    assert method.notes["model"]["width"] == 12


def test_weights_that_a_route_lacks(model, ranked, checkpoint):
    from safetensors.numpy import load_file, save_file
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer import modules

    transformer = [modules.Transformer(str(checkpoint(pooling=""))), modules.Pooling(16, "mean")]
    folder, _ = model(Router.for_query_document([static()], transformer))
    (file,) = folder.rglob("document_0_Transformer/model.safetensors")
    save_file(
        {name: weight for name, weight in load_file(file).items() if "layer.1." not in name}, file, {"format": "pt"}
    )
    with pytest.raises(UsageError, match="document_0_Transformer lacks 16 weights of BertModel"):
        ranked(folder)


@pytest.mark.parametrize(("asked", "cut"), [(8, {"query": None, "document": 8}), (20, {"query": None, "document": 12})])
def test_the_length_of_a_route(model, predicted, stories, checkpoint, asked, cut):
    """A static route has no length, and that of a Router is the largest of its routes."""
    from sentence_transformers.base.modules import Dense, Router
    from sentence_transformers.sentence_transformer import modules

    transformer = modules.Transformer(str(checkpoint(pooling="")), max_seq_length=12)
    route = [transformer, modules.Pooling(16, "mean"), Dense(16, 12)]
    folder, reference = model(Router.for_query_document([static()], route))
    labels = Texts.from_lists([f"{label} {'red bridge green garden ' * 6}" for label in stories[1]])
    method = Embedder(model=str(folder), max_length=asked)
    method.fit(stories[0], labels)
    assert method.notes["model"]["max_seq_length"] == cut
    reference[0].sub_modules["document"][0].max_seq_length = cut["document"]
    expected = reference.encode_document(list(labels), normalize_embeddings=True)
    np.testing.assert_allclose(method._labels, expected, atol=1e-5)


def test_a_short_route_stays_short(model, stories, checkpoint):
    """Its own length is shorter than the one asked for; checked in another process too."""
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer import modules

    routes = [
        [modules.Transformer(str(checkpoint(pooling="")), max_seq_length=length), modules.Pooling(16, "mean")]
        for length in (9, 40)
    ]
    folder, _ = model(Router.for_query_document(*routes))
    for max_length, cut in ((20, (9, 20)), (8, (8, 8)), (None, (9, 40))):
        found = open_model(folder, max_length=max_length)
        for embedder in (found, found.reload("cpu")):
            assert embedder.length == dict(zip(("query", "document"), cut, strict=True))
            sides = embedder.model[0].sub_modules
            assert tuple(sides[name][0].max_seq_length for name in ("query", "document")) == cut


def test_static_embeddings(model, ranked, stories):
    folder, reference = model(static())
    found, method = ranked(folder)
    expected = reference.similarity(reference.encode(NEW), reference.encode(list(stories[1]))).numpy()
    np.testing.assert_allclose(scores(found), expected, atol=1e-5)
    assert method.notes["model"]["max_seq_length"] is None


@pytest.mark.parametrize("normalize", [True, False])
def test_model2vec(ranked, stories, tmp_path, normalize):
    model2vec = pytest.importorskip("model2vec")
    embedding = static()
    made = model2vec.StaticModel(
        embedding.embedding.weight.detach().numpy(), embedding.tokenizer, {"model_type": "model2vec"}, normalize
    )
    made.save_pretrained(tmp_path / "static")
    (tmp_path / "static" / "modules.json").unlink(missing_ok=True)
    found, method = ranked(tmp_path / "static", max_length=64)
    assert (method._model.model.max_seq_length, method.notes["model"]["max_seq_length"]) == (64, 64)
    queries, labels = made.encode(NEW), made.encode(list(stories[1]))
    lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(labels, axis=1)
    np.testing.assert_allclose(scores(found), queries @ labels.T / np.maximum(lengths, 1e-9), atol=1e-5)


def test_model2vec_that_is_not_installed(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text('{"model_type": "model2vec"}')
    monkeypatch.setattr("xmcbench.methods.embedder.folder.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="model2vec, which is not installed") as raised:
        Embedder(model=str(tmp_path)).require()
    assert raised.value.hint == "pip install model2vec"


def test_an_adapter_without_peft(model, monkeypatch):
    """transformers would run the model without it."""
    folder, _ = model()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    monkeypatch.setattr("xmcbench.methods.embedder.folder.find_spec", lambda name: None if name == "peft" else object())
    with pytest.raises(Unavailable, match=r"has an adapter, adapter_config\.json, and peft is not installed") as raised:
        Embedder(model=str(folder)).require()
    assert raised.value.hint == "pip install peft"
    monkeypatch.setattr("xmcbench.methods.embedder.folder.find_spec", lambda name: object())
    Embedder(model=str(folder)).require()


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_a_backend_that_is_not_installed(model, monkeypatch, backend):
    monkeypatch.setattr("xmcbench.methods.embedder.find_spec", lambda name: None)
    folder, _ = model()
    with pytest.raises(Unavailable, match=f"the backend {backend} needs optimum") as raised:
        Embedder(model=str(folder), backend=backend).require()
    assert raised.value.hint == f'pip install "sentence-transformers[{backend}]"'


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_a_backend(model, ranked, backend):
    pytest.importorskip({"onnx": "optimum.onnxruntime", "openvino": "optimum.intel.openvino"}[backend])
    folder, _ = model()
    exact, _ = ranked(folder)
    found, method = ranked(folder, backend=backend)
    np.testing.assert_allclose(scores(found), scores(exact), atol=1e-3)
    assert method.notes["model"]["backend"] == backend


@pytest.mark.parametrize("where", ["modules", "router", "auto_map"])
def test_code_of_a_model_is_never_run(model, ranked, tmp_path, where):
    from sentence_transformers.base.modules import Router

    folder, _ = model(Router.for_query_document([static()], [static()])) if where == "router" else model()
    (folder / "mine.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\nclass Mine: pass\n"
    )
    if where == "modules":
        listed = json.loads((folder / "modules.json").read_text())
        listed[1]["type"] = "mine.Mine"
        (folder / "modules.json").write_text(json.dumps(listed))
    elif where == "router":
        file = folder / "router_config.json"
        config = json.loads(file.read_text())
        config["types"] = dict.fromkeys(config["types"], "mine.Mine")
        file.write_text(json.dumps(config))
    else:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "mine.Mine"}}))
    for tried in (check_model, ranked):
        with pytest.raises(UsageError, match="needs code of its own"):
            tried(folder)
    assert not (tmp_path / "ran").exists()


def test_folders_that_are_none(model, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="neither modules.json nor config.json"):
        Embedder(model=str(tmp_path / "empty")).require()
    folder, _ = model()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match="pickled weights"):
        Embedder(model=str(folder)).require()
    with pytest.raises(UsageError, match="unknown backbone"):
        Embedder(model="./nowhere").require()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin"])
def test_a_pickle_of_one_module(model, tmp_path, name):
    """The safetensors of another module do not make it one: sentence-transformers would unpickle it."""
    from sentence_transformers.base.modules import Dense

    folder, _ = model(static(), Dense(12, 8))
    check_model(folder)
    (folder / "1_Dense" / "model.safetensors").rename(folder / "1_Dense" / name)
    with pytest.raises(UsageError, match=f"has pickled weights, 1_Dense/{name}, which are not read"):
        check_model(folder)


def test_pickles_that_are_not_read(model):
    """Beside safetensors, and what only ends like one."""
    folder, _ = model()
    (folder / "openvino").mkdir()
    for name in ("pytorch_model.bin", "training_args.bin", "openvino/openvino_model.bin", "openvino_model.bin"):
        (folder / name).touch()
    check_model(folder)
    (folder / "pytorch_model.bin").unlink()
    (folder / "training_args.bin").unlink()
    (folder / "model.safetensors").unlink()
    check_model(folder)


#: What a clone without `git lfs pull` has in place of a large file.
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 12345\n"


@pytest.mark.parametrize("method", [Embedder, SentBERT, Rerank], ids=["embedder", "sentbert", "rerank"])
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", "modules.json"])
def test_a_pointer_of_git_lfs_is_named_while_a_run_is_planned(model, method, name):
    folder, _ = model()
    (folder / name).write_text(POINTER)
    planned = method(**{"backbone" if method is SentBERT else "model": str(folder)})
    with pytest.raises(Unavailable, match=rf"{name} is a Git LFS pointer, .*\(fetch the file: git lfs pull\)"):
        planned.require()


def test_a_pointer_in_place_of_what_is_not_read(model):
    folder, _ = model()
    (folder / "onnx").mkdir()
    for name in ("pytorch_model.bin", "onnx/model.onnx", "README.md"):
        (folder / name).write_text(POINTER)
    check_model(folder)
    check_model(folder, "openvino")
    with pytest.raises(Unavailable, match="onnx/model.onnx is a Git LFS pointer"):
        check_model(folder, "onnx")


def test_weights_that_do_not_load(model, ranked):
    folder, _ = model()
    (folder / "model.safetensors").write_text("none")
    with pytest.raises(UsageError, match="sentence-transformers cannot load"):
        ranked(folder)


def test_weights_that_are_not_there(model, ranked):
    """transformers would draw them at random: another ranking with every run."""
    from safetensors.numpy import load_file, save_file

    folder, _ = model()
    kept = {name: weight for name, weight in load_file(folder / "model.safetensors").items() if "layer.1." not in name}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UsageError, match="lacks 16 weights of BertModel, encoder.layer.1."):
        ranked(folder)


def test_the_card_is_in_the_notes(model, ranked):
    folder, _ = model()
    before = files_sha256(folder)
    lines = ["---", "license: mit", "datasets:", "- snli", "- multi_nli", "base_model: a/b", "date: 2026-11-22"]
    (folder / "README.md").write_text("\n".join([*lines, "---", "# A model"]))
    _, method = ranked(folder)
    assert method.notes["model"]["card"] == {
        "license": "mit",
        "training_sets": ["snli", "multi_nli"],
        "base_model": "a/b",
        "date": "2026-11-22",
    }
    assert files_sha256(folder) == before
    (folder / "README.md").unlink()
    assert ranked(folder)[1].notes["model"]["card"] == {}


def test_labels_are_embedded_once_and_halved_on_request(model, ranked, tmp_path):
    folder, _ = model()
    first, _ = ranked(folder)
    again, method = ranked(folder)
    assert method.artifacts.reused_s > 0
    assert first.scores.tobytes() == again.scores.tobytes()
    half, _ = ranked(folder, stored_as="float16")
    assert sorted(file.stat().st_size for file in tmp_path.rglob("embeddings.bin")) == [10 * 16 * 2, 10 * 16 * 4]
    np.testing.assert_allclose(scores(half), scores(first), atol=2e-3)
    assert half.scores.tobytes() != first.scores.tobytes()


@pytest.mark.skipif(not can_pack("cpu", "fp32"), reason="oneDNN does not multiply by packed weights here")
def test_weights_are_packed(model):
    """The vectors are those of sentence-transformers."""
    folder, theirs = model()
    ours = open_model(folder)
    np.testing.assert_allclose(ours.vectors("instance", NEW), theirs.encode(NEW, normalize_embeddings=True), atol=1e-6)
    linear = [layer for layer in ours.model.modules() if isinstance(layer, torch.nn.Linear)]
    assert linear
    assert all("forward" in vars(layer) and layer.weight.is_mkldnn for layer in linear)  # and no others stay in memory


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_16_bit_weights(model, ranked, precision):
    folder, _ = model()
    exact, rough = ranked(folder)[0], ranked(folder, precision=precision)[0]
    np.testing.assert_allclose(scores(rough), scores(exact), atol=0.05)
    assert not np.array_equal(rough.scores, exact.scores)


def test_a_gpu_without_bfloat16_takes_float16(model, ranked, monkeypatch, volta):
    monkeypatch.setattr("xmcbench.methods.embedder.model.choose_precision", volta)
    folder, _ = model()
    found, method = ranked(folder, precision="auto")
    assert method.notes["model"]["precision"] == "fp16"
    assert {parameter.dtype for parameter in method._model.model.parameters()} == {torch.float16}
    assert found.scores.dtype == np.float32


def test_a_plain_transformer(checkpoint, ranked):
    assert ranked(checkpoint(pooling=""))[1].notes["model"]["width"] == 16


def test_another_width_for_each_side(model, ranked, tmp_path):
    from sentence_transformers.base.modules import Router

    folder, _ = model(Router.for_query_document([static(12)], [static(8)]))
    with pytest.raises(UsageError, match="vectors of different widths"):
        ranked(folder)


def test_a_copy_is_the_same_model(model, tmp_path):
    folder, _ = model()
    assert files_sha256(shutil.copytree(folder, tmp_path / "copy")) == files_sha256(folder)


def test_the_checksum_is_of_what_the_backend_reads(model):
    """Copies in other formats and the folders of other backends leave it as it is, and as it was before them."""
    folder, _ = model()
    before = files_sha256(folder)
    whole = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{file.relative_to(folder).as_posix()} {digest}\n".encode())
    assert before == whole.hexdigest()
    for name in ("onnx", "openvino", "1_Pooling/onnx"):
        (folder / name).mkdir()
    copies = ["pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "rust_model.ot", ".gitattributes", "README.md"]
    for name in (*copies, "onnx/model.onnx", "openvino/openvino_model.bin", "1_Pooling/onnx/model.onnx"):
        (folder / name).write_text(name)
    assert files_sha256(folder) == before
    by_backend = {kind: files_sha256(folder, kind) for kind in ("onnx", "openvino")}
    assert len({before, *by_backend.values()}) == 3
    for name, backend in (("onnx/model.onnx", "onnx"), ("openvino/openvino_model.bin", "openvino")):
        (folder / name).write_text("other")
        changed = {kind for kind in by_backend if files_sha256(folder, kind) != by_backend[kind]}
        assert changed == {backend}
        by_backend[backend] = files_sha256(folder, backend)
    (folder / "openvino_model.bin").write_text("beside safetensors")
    assert files_sha256(folder) == before
    assert files_sha256(folder, "openvino") != by_backend["openvino"]
    (folder / "1_Pooling" / "weights.bin").write_text("the only ones")
    assert files_sha256(folder) != before


def test_the_checksum_of_another_backend_is_in_the_notes(model, stories, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "xmcbench.methods.embedder.model.files_sha256", lambda folder, backend: asked.append(backend) or "digest"
    )
    folder, _ = model()
    assert open_model(folder).sha256 == "digest"
    assert asked == ["torch"]


def test_texts_may_be_a_list(model, ranked):
    folder, _ = model()
    found, method = ranked(folder)
    assert method.predict(Texts.from_lists(NEW), 10).scores.tobytes() == found.scores.tobytes()
