"""Checkpoints of every kind, built and saved by sentence-transformers, against its own vectors."""

import json
import shutil

import numpy as np
import pytest
import torch

from xmcbench import Artifacts, Compute, Texts, Unavailable, UsageError
from xmcbench.methods.embedder import Embedder
from xmcbench.methods.encoder.backbone import require_backbone, weights_sha256
from xmcbench.methods.encoder.encoding import encode
from xmcbench.methods.encoder.settings import read_settings
from xmcbench.methods.encoder.tower import Tower
from xmcbench.methods.ict import ICT
from xmcbench.methods.sentbert import SentBERT

TEXTS = ["the old apple", "", "red bridge and green island " * 3, "zyzzyva \u4e2d", "THE OLD Apple"]
POOLINGS = ["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", ("mean", "max")]


@pytest.fixture
def saved(checkpoint, tmp_path):
    """Save a model of a transformer and what follows it; returns its folder and the model as it is loaded again."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    def save(*following, pooling="mean", kind="bert", name="model", lengths=64, **options):
        torch.manual_seed(1)
        transformer = modules.Transformer(str(checkpoint(kind, pooling="")), max_seq_length=lengths)
        layers = [transformer, modules.Pooling(16, pooling), *following]
        SentenceTransformer(modules=layers, device="cpu", **options).save(str(tmp_path / name), create_model_card=False)
        return tmp_path / name, SentenceTransformer(str(tmp_path / name), device="cpu", local_files_only=True)

    return save


@pytest.fixture
def tower(tmp_path, stories):
    def open_tower(folder, head="native", prompts=(None, None), lengths=(288, 64)):
        return Tower.open(
            str(folder),
            stories[:2],
            Artifacts(tmp_path / "store"),
            Compute("cpu"),
            head=head,
            projection=False,
            precision="fp32",
            mlm_steps=0,
            temperature=0.05,
            lengths=lengths,
            prompts=prompts,
            seed=0,
        )

    return open_tower


def vectors(tower, texts=TEXTS, side="instance", length=288):
    tokens = {"instance": tower.instance_tokens, "label": tower.label_tokens}[side](Texts.from_lists(texts), length)
    out = np.empty((len(texts), tower.encoder.width), np.float32)
    encode(tower.encoder, tokens, out)
    return out


def dense(outputs=8, **options):
    from sentence_transformers.base.modules import Dense

    return Dense(options.pop("inputs", 16), outputs, **options)


def same(found, expected):
    np.testing.assert_allclose(found, expected, atol=3e-6)


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_pooling(saved, tower, pooling, kind):
    folder, reference = saved(pooling=pooling, kind=kind, similarity_fn_name="dot")
    opened = tower(folder)
    same(vectors(opened), reference.encode(TEXTS))
    assert opened.note()["pooling"] == (pooling if isinstance(pooling, str) else "mean+max")
    assert not np.allclose(np.linalg.norm(vectors(opened), axis=1), 1)


def test_cosine_is_scaled_to_length_one(saved, tower):
    folder, reference = saved()
    opened = tower(folder)
    assert reference.similarity_fn_name == "cosine"
    same(vectors(opened), reference.encode(TEXTS, normalize_embeddings=True))
    assert (opened.note()["similarity"], opened.temperature) == ("cosine", 0.05)
    folder, _ = saved(similarity_fn_name="dot", name="dot")
    assert (tower(folder).note()["similarity"], tower(folder).temperature) == ("dot", 1.0)


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("activation", [None, torch.nn.Tanh(), torch.nn.GELU()])
def test_dense_layers(saved, tower, activation, similarity):
    from sentence_transformers.base.modules import Normalize

    following = dense(12, activation_function=activation), Normalize(), dense(6, inputs=12, bias=False)
    folder, reference = saved(*following, similarity_fn_name=similarity)
    opened = tower(folder)
    same(vectors(opened), reference.encode(TEXTS, normalize_embeddings=similarity == "cosine"))
    assert opened.note()["width"] == 6


def test_weights_of_dense_layers_are_part_of_the_checksum(saved):
    folder, _ = saved(dense())
    before = weights_sha256(folder)
    other, _ = saved(dense(init_weight=torch.ones(8, 16)), name="other")
    assert before != weights_sha256(other)
    (folder / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="2_Dense has no safetensors weights"):
        require_backbone(str(folder))


def test_the_head_of_the_paper_takes_the_dense_layer_of_the_checkpoint(saved, tower):
    """[Transformer, Pooling, Dense] folders, as the authors of MACLR publish: inner product, no scaling."""
    folder, reference = saved(dense(24), pooling="cls")
    opened = tower(folder, head="paper")
    same(vectors(opened), reference.encode(TEXTS))
    assert (opened.encoder.width, opened.note()["similarity"]) == (24, "dot")
    (folder / "0_Transformer").mkdir()
    for file in [*folder.glob("*.safetensors"), *folder.glob("token*"), folder / "config.json"]:
        file.rename(folder / "0_Transformer" / file.name)
    (folder / "sentence_bert_config.json").rename(folder / "0_Transformer" / "sentence_bert_config.json")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    require_backbone(str(folder))
    same(vectors(tower(folder, head="paper")), reference.encode(TEXTS))


@pytest.mark.parametrize(
    ("pooling", "following"),
    [("mean", lambda: [dense()]), ("cls", lambda: [dense(activation_function=None)]), ("cls", lambda: [dense()] * 2)],
)
def test_another_end_is_not_the_head_of_the_paper(saved, tower, pooling, following):
    layers = following()
    folder, _ = saved(layers[0], *(dense(8, inputs=8) for _ in layers[1:]), pooling=pooling)
    with pytest.raises(UsageError, match="does not end as the head of the paper does"):
        tower(folder, head="paper")


def test_truncation(saved, tower):
    folder, reference = saved(truncate_dim=5)
    opened = tower(folder)
    assert opened.encoder.width == 5
    same(vectors(opened), reference.encode(TEXTS, normalize_embeddings=True))
    assert tower(folder, head="cls").encoder.width == 5


@pytest.mark.parametrize("where", ["sentence_bert_config.json", "tokenizer_config.json"])
def test_the_stated_length(saved, tower, where):
    folder, reference = saved(lengths=9)
    if where.startswith("sentence"):
        for name, values in ((where, {"max_seq_length": 9}), ("tokenizer_config.json", {"model_max_length": 64})):
            file = folder / name
            file.write_text(json.dumps({**json.loads(file.read_text()), **values}))
    opened = tower(folder)
    assert (opened.longest, opened.note()["lengths"]) == (9, [9, 9])
    same(vectors(opened), reference.encode(TEXTS, normalize_embeddings=True))
    assert opened.limit(4) == 4


def test_lower_case(saved, tower, checkpoint):
    folder, _ = saved()
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"] = None
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    before = vectors(tower(folder))
    assert not np.allclose(before[0], before[4])
    file = folder / "sentence_bert_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "do_lower_case": True}))
    found = vectors(tower(folder))
    same(found[4], found[0])
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    same(found, reference.encode(TEXTS, normalize_embeddings=True))


@pytest.mark.parametrize(
    ("prompts", "default", "instances", "labels"),
    [
        ({"query": "the ", "passage": "red "}, None, "query", "passage"),
        ({"query": "the ", "document": "red ", "passage": "old "}, None, "query", "document"),
        ({"story": "old ", "corpus": "red "}, "story", "story", "corpus"),
        ({"story": "old "}, "story", "story", "story"),
        ({"query": "the "}, "query", "query", ""),
        ({"search_query": "the ", "search_document": "red ", "story": "old "}, None, "search_query", "search_document"),
        ({"retrieval.query": "the ", "text-matching": "old "}, None, "retrieval.query", ""),
        ({"Retrieval-query": "the ", "Retrieval-passage": "red "}, None, "Retrieval-query", "Retrieval-passage"),
        ({"query": "the ", "sts query": "old "}, None, "query", ""),
        ({"s2p_query": "the ", "s2s_query": "the "}, None, "s2p_query", ""),
        ({"web_query": "the "}, "web_query", "web_query", ""),
    ],
)
def test_saved_prompts(saved, tower, prompts, default, instances, labels):
    folder, reference = saved(prompts=prompts, default_prompt_name=default)
    opened = tower(folder)
    for side, name in (("instance", instances), ("label", labels)):
        expected = reference.encode(TEXTS, prompt=prompts.get(name, ""), normalize_embeddings=True)
        same(vectors(opened, side=side), expected)
    texts = {"instances": prompts.get(instances, ""), "labels": prompts.get(labels, "")}
    assert opened.note().get("prompts", {"instances": "", "labels": ""}) == texts
    chosen = tower(folder, prompts=("green ", ""))
    same(vectors(chosen), reference.encode(TEXTS, prompt="green ", normalize_embeddings=True))
    same(vectors(chosen, side="label"), reference.encode(TEXTS, prompt="", normalize_embeddings=True))


@pytest.mark.parametrize(
    ("prompts", "message", "hint", "enough"),
    [
        ({"story": "old "}, "fit neither instances nor labels: story", "instance_prompt and label_prompt", ("", "")),
        (
            {"s2p_query": "the ", "s2s_query": "old "},
            "several prompts whose names fit instances: s2p_query, s2s_query",
            "set instance_prompt",
            ("the ", None),
        ),
        (
            {"query": "the ", "web-document": "red ", "web-passage": "old "},
            "several prompts whose names fit labels: web-document, web-passage",
            "set label_prompt",
            (None, "red "),
        ),
    ],
)
def test_prompts_that_fit_no_side_or_several_are_refused_by_name(saved, prompts, message, hint, enough):
    """Refused when a run is planned: a model without its prompts would be a worse one under the same name."""
    folder, _ = saved(prompts=prompts)
    with pytest.raises(UsageError, match=message) as raised:
        SentBERT(backbone=str(folder)).require()
    assert hint in raised.value.hint
    SentBERT(backbone=str(folder), instance_prompt=enough[0], label_prompt=enough[1]).require()
    with pytest.raises(UsageError, match=message):
        Embedder(model=str(folder)).fit(Texts.from_lists(["a"]), Texts.from_lists(["b"]))


def test_prompts_reach_training_and_prediction(saved, stories, tmp_path):
    """The same weights with prompts of their own are another model, in every method."""
    raw_X, raw_Y, pairs = stories
    folder, _ = saved(lengths=24)
    prompted, _ = saved(prompts={"query": "the red ", "document": "the green "}, name="prompted", lengths=24)
    scores = {}
    for kind, values in ((SentBERT, {}), (ICT, {"steps": 3, "batch": 8})):
        for backbone in (folder, prompted):
            method = kind(backbone=str(backbone), finetune_steps=3, finetune_batch=8, **values)
            method.artifacts = Artifacts(tmp_path / "store")
            if values:
                method.pretrained = method.pretrain(raw_X, raw_Y)
            method.fit(raw_X, raw_Y, pairs)
            scores[kind, backbone] = method.predict(raw_X, 5).scores
        assert not np.array_equal(scores[kind, folder], scores[kind, prompted])
    assert method.notes["backbone"]["prompts"] == {"instances": "the red ", "labels": "the green "}


@pytest.mark.parametrize(
    ("file", "values", "named"),
    [
        ("config_sentence_transformers.json", {"similarity_fn_name": "euclidean"}, "similarity_fn_name is 'euclidean'"),
        ("config_sentence_transformers.json", {"default_prompt_name": "sts"}, "default_prompt_name is 'sts'"),
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "a SparseEncoder"),
        ("config_sentence_transformers.json", {"whitening": 3}, "states whitening"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "transformer_task is 'fill-mask'"),
        ("sentence_bert_config.json", {"query_length": 8}, "states query_length"),
        ("sentence_bert_config.json", {"modality_config": {"message": {}}}, "modality_config"),
        ("1_Pooling/config.json", {"pooling_mode": "attention"}, "pools by 'attention'"),
        ("1_Pooling/config.json", {"gate": True}, "Pooling states gate"),
        ("2_Dense/config.json", {"use_residual": True}, "use_residual=true"),
        ("2_Dense/config.json", {"module_input_name": "tokens"}, "reads or writes"),
        ("2_Dense/config.json", {"activation_function": "mine.Swish"}, "activation_function mine.Swish"),
    ],
)
def test_what_is_not_followed_is_refused_by_name(saved, file, values, named):
    """Refused when a run is planned, before any cell."""
    folder, _ = saved(dense())
    config = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**config, **values}))
    with pytest.raises(UsageError, match=named) as raised:
        require_backbone(str(folder))
    assert "embedder" in raised.value.hint


@pytest.mark.parametrize("names", [{"module_input_name": "token_embeddings"}, {"module_output_name": "unit"}])
def test_a_normalize_of_something_else_is_refused(saved, names):
    from sentence_transformers.base.modules import Normalize

    folder, _ = saved(Normalize(**names))
    with pytest.raises(UsageError, match="its Normalize reads or writes"):
        require_backbone(str(folder))


def test_a_normalize_without_a_file(saved, tower):
    """As older versions saved it."""
    from sentence_transformers.base.modules import Normalize

    folder, reference = saved(Normalize())
    shutil.rmtree(folder / "2_Normalize")
    same(vectors(tower(folder)), reference.encode(TEXTS))


@pytest.mark.parametrize(
    ("requirements", "error", "message"),
    [
        ({"torch": ">=1000"}, Unavailable, r"needs torch>=1000, but \d+.* is installed"),
        ({"pytorch": {"specifier": "<1", "reason": "speed"}}, Unavailable, r"needs pytorch<1, but \d+.* is installed"),
        ({"no-such-package": ""}, Unavailable, "needs no-such-package, but none is installed"),
        ({"python": "<3"}, Unavailable, r"needs python<3, but 3\..* is installed"),
        ({"torch": "soon"}, UsageError, "needs torch 'soon', which is not a version"),
        ({"torch": 3}, UsageError, "requirements"),
    ],
)
def test_packages_that_a_checkpoint_needs(saved, requirements, error, message):
    folder, _ = saved()
    file = folder / "config_sentence_transformers.json"
    before = json.loads(file.read_text())
    met = {"torch": ">=1", "pytorch": {"specifier": "<1000"}, "python": ">=3.8", "numpy": ""}
    file.write_text(json.dumps({**before, "requirements": met}))
    require_backbone(str(folder))
    file.write_text(json.dumps({**before, "requirements": {**met, **requirements}}))
    with pytest.raises(error, match=message):
        require_backbone(str(folder))


@pytest.mark.parametrize("plain", [True, False])
def test_an_adapter_beside_the_weights_is_refused(saved, checkpoint, tmp_path, plain):
    """transformers would add it where peft is installed and leave it out elsewhere, without a word."""
    folder = shutil.copytree(checkpoint(pooling=""), tmp_path / "plain") if plain else saved()[0]
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    with pytest.raises(UsageError, match=r"has an adapter, adapter_config\.json") as raised:
        require_backbone(str(folder))
    assert "merge_and_unload" in raised.value.hint


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("modules.json", {}, "Expected `array`"),
        ("modules.json", [{"path": ""}], "missing required field `type`"),
        ("config_sentence_transformers.json", [], "Expected `object`"),
        ("config_sentence_transformers.json", {"prompts": ["the "]}, "prompts`"),
        ("config_sentence_transformers.json", {"truncate_dim": "8"}, "truncate_dim`"),
        ("sentence_bert_config.json", {"max_seq_length": "9"}, "max_seq_length`"),
        ("1_Pooling/config.json", [], "Expected `object`"),
        ("2_Dense/config.json", {"out_features": 8}, "missing required field `in_features`"),
        ("config.json", {"architectures": "BertModel"}, "architectures`"),
        ("tokenizer_config.json", {"model_max_length": "9"}, "model_max_length`"),
    ],
)
def test_a_file_that_is_not_what_it_is_to_be(saved, file, content, message):
    """A message in one line, with the file and the key."""
    folder, _ = saved(dense())
    (folder / "sentence_bert_config.json").write_text("{}")  # else the tokenizer's limit would not be read
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(UsageError, match=message) as raised:
        require_backbone(str(folder))
    assert str(folder / file) in raised.value.message


@pytest.mark.parametrize("where", ["module", "transformer"])
def test_code_of_a_checkpoint_is_neither_run_nor_replaced(saved, where):
    """The class of the same name in transformers or in sentence-transformers is another network."""
    folder, _ = saved()
    if where == "module":
        modules = json.loads((folder / "modules.json").read_text())
        modules[1]["type"] = "my_package.Pooling"
        (folder / "modules.json").write_text(json.dumps(modules))
    else:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "mine.Bert"}}))
    with pytest.raises(UsageError, match=r"my_package\.Pooling|auto_map in config\.json"):
        require_backbone(str(folder))


def test_a_model_with_a_decoder_is_refused(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(pooling=""), tmp_path / "t5")
    (folder / "config.json").write_text(json.dumps({"model_type": "t5", "is_encoder_decoder": True}))
    with pytest.raises(UsageError, match=r"has a decoder behind its encoder \(t5\)") as raised:
        require_backbone(str(folder))
    assert "embedder" in raised.value.hint


@pytest.mark.parametrize("kind", ["esm", "funnel", "squeezebert"])
def test_an_architecture_that_cannot_be_trained_here_is_refused(checkpoint, tmp_path, kind):
    folder = shutil.copytree(checkpoint(pooling=""), tmp_path / kind)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(UsageError, match=f"of the architecture {kind} cannot be trained from token vectors") as raised:
        require_backbone(str(folder))
    assert "embedder" in raised.value.hint


@pytest.mark.parametrize("module", ["1_Pooling", "2_Dense"])
def test_a_module_without_its_file_is_refused_by_name(saved, module):
    """It would be taken for another one: for the pooling by the mean."""
    folder, _ = saved(dense(), pooling="cls")
    (folder / module / "config.json").unlink()
    kind = module.partition("_")[2]
    with pytest.raises(UsageError, match=f"its module {kind} has no {module}/config.json"):
        require_backbone(str(folder))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_module_that_is_not_known(checkpoint, tmp_path, place):
    folder = shutil.copytree(checkpoint(), tmp_path / "other")
    modules = json.loads((folder / "modules.json").read_text())
    modules[place]["type"] = "sentence_transformers.models.LSTM"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UsageError, match="LSTM"):
        read_settings(folder)


def test_a_prompt_that_is_left_out_of_the_pooling_is_refused(saved, tower):
    folder, _ = saved(prompts={"query": "the "})
    file = folder / "1_Pooling" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "include_prompt": False}))
    with pytest.raises(UsageError, match="include_prompt=false"):
        tower(folder)
    tower(folder, prompts=("", None))


def test_a_plain_transformer(checkpoint, tmp_path):
    plain = checkpoint(pooling="")
    assert (read_settings(plain).poolings, read_settings(plain).similarity) == (("mean",), "cosine")
    folder = shutil.copytree(plain, tmp_path / "decoder")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["TinyForCausalLM"]}))
    assert read_settings(folder).poolings == ("lasttoken",)
