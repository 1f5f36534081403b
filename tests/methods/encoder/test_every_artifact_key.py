"""Keys of artifacts of all kinds: each input that changes what is kept changes its key."""

import inspect
import shutil
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest
import torch
from artifact_keys import CASES, Made, Stop, case, entries, record, sites
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Method, Texts
from xmcbench.data import dataset as datasets
from xmcbench.data import opening
from xmcbench.data import store as data_store
from xmcbench.data.card import Card, Derivation
from xmcbench.data.dataset import Dataset
from xmcbench.data.sources import columns
from xmcbench.methods.deepxml.bags import Tokens
from xmcbench.methods.dense.vectors import shared_vectors
from xmcbench.methods.dexml import DEXML
from xmcbench.methods.embedder.model import EmbeddingModel
from xmcbench.methods.encoder import cloze, scratch, tower
from xmcbench.methods.encoder.batches import Epochs
from xmcbench.methods.encoder.cloze import splitter
from xmcbench.methods.encoder.encoding import embeddings
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.tower import Tower
from xmcbench.methods.encoder.training import History, Task, TrainingPlan
from xmcbench.methods.glove import GloVe
from xmcbench.methods.ict import ICT
from xmcbench.methods.label_expansion import LabelExpansion
from xmcbench.methods.lmtx import LMTX
from xmcbench.methods.maclr import MACLR, pseudo_pairs
from xmcbench.methods.ngame import NGAME
from xmcbench.methods.renee import Renee
from xmcbench.methods.rerank.judgments import keep_scores
from xmcbench.methods.rts import RTS
from xmcbench.methods.sentbert import SentBERT
from xmcbench.methods.simcse import SimCSE
from xmcbench.methods.sparse.features import TfidfFeatures
from xmcbench.methods.xr_transformer import XRTransformer
from xmcbench.records import Cell
from xmcbench.runner.job import training_key
from xmcbench.runner.parts import Part, keep_ranking, ranking_key
from xmcbench.runner.prediction import load_pretraining
from xmcbench.setting import Setting
from xmcbench.storage.canonical import sha256_json
from xmcbench.storage.locations import cache_root
from xmcbench.storage.source import source_of

X = Texts.from_lists([f"story {row}" for row in range(6)], ["An old apple. A new bridge."] * 6)
Y = Texts.from_lists(["the apple", "the bridge", "a candle"])
OTHER_X, OTHER_Y = Texts.from_lists(["another"] * 6), Texts.from_lists(["other", "labels", "three"])


def pairs_of(*columns):
    return csr_matrix((np.ones(6, np.float32), (np.arange(6), columns)), shape=(6, 3))


PAIRS, OTHER_PAIRS = pairs_of(0, 1, 2, 0, 1, 2), pairs_of(2, 1, 0, 2, 1, 0)
FLOAT32, FLOAT16 = np.dtype(np.float32), np.dtype(np.float16)
OTHER_TFIDF = {"raw_X": OTHER_X, "raw_Y": OTHER_Y, "recipe": "pecos", "ngrams": 1, "max_df": 0.5}


@case("methods.sparse.features:TfidfFeatures.shared", "tfidf", TfidfFeatures.shared, **OTHER_TFIDF, analyzer="german")
def _(world, raw_X=X, raw_Y=Y, recipe="sklearn", ngrams=2, max_df=1.0, analyzer=None):
    TfidfFeatures.shared(world.store, raw_X, raw_Y, recipe, ngrams, max_df, analyzer)


@case(
    "methods.sparse.features:TfidfFeatures.shared",
    "analyzed-tfidf",
    TfidfFeatures.shared,
    **OTHER_TFIDF,
    analyzer="german",
)
def _(world, raw_X=X, raw_Y=Y, recipe="sklearn", ngrams=2, max_df=1.0, analyzer="english"):
    TfidfFeatures.shared(world.store, raw_X, raw_Y, recipe, ngrams, max_df, analyzer)


@case(
    "methods.label_expansion:LabelExpansion.fit",
    "label-expansion",
    raw_X=OTHER_X,
    raw_Y=OTHER_Y,
    documents=6,
    weight=0.6,
    terms=10,
    vectorizer="pecos",
    ngrams=1,
    max_df=0.5,
    analyzer="characters",
)
def _(world, raw_X=X, raw_Y=Y, **values):
    world.fit(LabelExpansion, raw_X, raw_Y, **values)


LINE = '{"judge": "third", "document": "a", "label": "b", "score": 0.5}\n'


@case(
    "methods.rerank.judgments:keep_scores", "judgments", judge="other", texts=("c",), pairs=[("a", "c")], given=2 * LINE
)
def _(world, judge="one", texts=("a", "b"), pairs=(("a", "b"),), given=LINE):
    answers = SimpleNamespace(identity=judge, counts={})
    answers.judge = lambda asked: ((place, 0.5) for place in range(len(asked)))
    keep_scores(world.store, answers, pairs, texts, [world.file("given.jsonl", given)])


@case("methods.glove:GloVe._read_given", "word-vectors", content="2 2\na 1 2\nthe 1 3\n", max_words=6)
def _(world, content="2 2\na 1 2\nthe 1 2\n", max_words=5):
    world.fit(GloVe, X, Y, vectors=str(world.file("vectors.txt", content)), max_words=max_words)


@case("methods.deepxml.bags:Tokens._glove", "token-vectors", words=1, dimensions=4, corpora=[X, OTHER_Y], seed=1)
def _(world, words=2, dimensions=3, corpora=(X, Y), seed=0):
    Tokens(range(words), np.ones(words))._glove(dimensions, corpora, world.store, seed)


@case("methods.dense.vectors:shared_vectors", "embeddings", identity=2, dtype=FLOAT16)
def _(world, identity=1, dtype=FLOAT32):
    shared_vectors(world.store, {"a": identity}, (1, 2), dtype, world.checkpoint)


class FakeEncoder(SimpleNamespace):
    """The attributes of an encoder that a key has."""

    head, form, precision, weights, width = "native", ["bert"], "fp32", "a", 4
    cached_tokens, recomputed_layers, device = None, False, "cpu"

    def digest(self):
        return self.weights

    def parameters(self):
        yield SimpleNamespace(device=torch.device(self.device))


@case(
    "methods.encoder.encoding:embeddings",
    "embeddings",
    identity=2,
    dtype=FLOAT16,
    form=["roberta"],
    precision="bf16",
    device="meta",
)
def _(world, identity=1, dtype=FLOAT32, **encoder):
    with embeddings(world.store, FakeEncoder(**encoder), range(3), dtype, identity={"a": identity}):
        pass


@case(
    "methods.encoder.tower:Tower.embeddings",
    "embeddings",
    within="methods.encoder.encoding:embeddings",
    backbone="b",
    tokens="b",
    dtype=FLOAT16,
)
def _(world, backbone="a", tokens="a", dtype=FLOAT32):
    tower = SimpleNamespace(artifacts=world.store, encoder=FakeEncoder(), processes=1)
    tower.backbone = SimpleNamespace(sha256=backbone)
    with Tower.embeddings(tower, FakeStore(tokens), True, dtype):
        pass


class FakeStore(list):
    """Tokens that are kept in a folder of this name."""

    def __init__(self, name):
        self.folder = Path(name)


@case(
    "methods.embedder.model:EmbeddingModel.shared",
    "embeddings",
    texts=OTHER_X,
    side="label",
    dtype=FLOAT16,
    sha256="b",
    backend="onnx",
    precision="bf16",
    device="cuda",
    width=5,
    similarity="dot",
    length=8,
    batch=8,
    processes=2,
    prompts={"instance": "b", "label": "a"},
)
def _(world, texts=X, side="instance", dtype=FLOAT32, **fields):
    model = {"sha256": "a", "backend": "torch", "precision": "fp32", "device": "cpu", "width": 4, "length": 9}
    model |= {"batch": 4, "processes": 1}
    model |= {"similarity": "cosine", "prompts": {"instance": "a", "label": "a"}, **fields}
    fake = SimpleNamespace(**model, _writer=lambda *_: world.checkpoint)
    fake._facts = partial(EmbeddingModel._facts, fake)
    EmbeddingModel.shared(fake, world.store, texts, side, dtype)


class FakeTokenizer:
    """Makes a token of each word."""

    pad = 0

    def __init__(self, name):
        self.sha256 = name

    def __call__(self, texts, longest):
        return [[1] * min(longest, len(text.split())) for text in texts]


@case("methods.encoder.tokens:TokenStore.shared", "tokens", identity=2, tokenizer="b", max_length=8)
def _(world, identity=1, tokenizer="a", max_length=9):
    TokenStore.shared(world.store, {"a": identity}, world.fit, FakeTokenizer(tokenizer), max_length)


@case(
    "methods.encoder.tokens:TokenStore.of",
    "tokens",
    TokenStore.of,
    texts=OTHER_X,
    tokenizer="b",
    max_length=8,
    titles=True,
)
def _(world, texts=X, tokenizer="a", max_length=9, titles=False):
    TokenStore.of(world.store, texts, FakeTokenizer(tokenizer), max_length, titles)


@case("methods.encoder.cloze:splitter", "punkt", raw_X=OTHER_X)
def _(world, raw_X=X):
    splitter("punkt", world.store, raw_X)


def contexts(
    world,
    raw_X=X,
    tokenizers=("a", "b"),
    context_length=9,
    title_length=8,
    min_sentences=1,
    title_dropout=0.1,
    seed=0,
    sentences="regex",
):
    cloze.context_pairs(
        world.store,
        raw_X,
        tuple(map(FakeTokenizer, tokenizers)),
        context_length=context_length,
        title_length=title_length,
        min_sentences=min_sentences,
        title_dropout=title_dropout,
        seed=seed,
        sentences=sentences,
    )


DRAWN = {"raw_X": X.take(np.arange(5)), "min_sentences": 2, "title_dropout": 0.2, "seed": 1, "sentences": "punkt"}
case("methods.encoder.cloze:_find_repeated", "contexts", **DRAWN, stops=False)(contexts)
case(
    "methods.encoder.cloze:context_pairs",
    "tokens",
    cloze.context_pairs,
    **DRAWN,
    tokenizers=("a", "c"),
    context_length=8,
    title_length=7,
    stops=False,
)(contexts)

OTHER_SCRATCH = {"raw_X": OTHER_X, "raw_Y": OTHER_Y, "layers": 2, "width": 64, "steps": 2, "seed": 1}


# The one checkpoint of a corpus is the same wherever it is trained; what is unfinished is not.
@case("methods.encoder.scratch:scratch_checkpoint", "scratch", **OTHER_SCRATCH)
@case(
    "methods.encoder.scratch:scratch_checkpoint.build",
    "unfinished scratch",
    scratch.scratch_checkpoint,
    **OTHER_SCRATCH,
    device="cuda",
    precision="bf16",
    stops=False,
)
def _(world, raw_X=X, raw_Y=Y, layers=1, width=32, steps=1, seed=0, device="cpu", precision="fp32"):
    world.monkeypatch.setattr(scratch, "train", stop)
    scratch.scratch_checkpoint(
        world.store, raw_X, raw_Y, layers, width, steps=steps, seed=seed, device=device, precision=precision
    )


def stop(*_):
    raise Stop


OTHER_TRAINING = {
    "identity": 2, "device": "cuda", "processes": 2, "steps": 3, "learning_rate": 1e-2, "warmup": 0.2,
    "weight_decay": 0.1, "clip": 2.0, "seed": 1, "head": "cls", "form": ["roberta"], "precision": "bf16",
    "weights": "b", "cached_tokens": 8, "recomputed_layers": True,
}  # fmt: skip


def run_training(world, keep=True, identity=1, device="cpu", processes=1, **values):
    plan = {name: values.pop(name) for name in list(values) if hasattr(PLAN, name)}
    encoder = FakeEncoder(**values)
    plan, task = replace(PLAN, **plan), Nothing()
    tower.train_shared(world.store, encoder, task, plan, {"a": identity}, device, processes, keep)


class Nothing(Task):
    """A task that is never asked for a loss."""

    _epochs = Epochs(8, 4, 0)

    def losses(self, step, network, context):
        raise NotImplementedError


PLAN = TrainingPlan(2, 1e-3)
case("methods.encoder.tower:train_shared", "training", **OTHER_TRAINING)(run_training)
case("methods.encoder.tower:train_shared.build", "unfinished training", **OTHER_TRAINING)(
    partial(run_training, keep=False)
)

# The precision by name: with auto it would be that of this machine's hardware.
SHORT = {"precision": "fp32", "instance_length": 24, "label_length": 16}
TRAINING = {**SHORT, "steps": 2, "batch": 4, "learning_rate": 1e-3}
CLUSTERS = {"clusters": 3, "clusters_doubled_every": 1, "clusters_updated_every": 1, "kmeans_restarts": 1}
VALUES = {
    SentBERT: {**SHORT, "finetune_steps": 3, "finetune_batch": 8},
    SimCSE: TRAINING,
    RTS: {**TRAINING, "min_words": 2, "max_words": 4},
    ICT: TRAINING,
    LMTX: {**TRAINING, "steps": 4, "rounds": 2, "relevant": 0.1, "shortlist": 4, "checked": 0},
    MACLR: {**TRAINING, **CLUSTERS, "steps": 4, "pseudo_steps": 2, "sampled_labels": 4},
    NGAME: {**SHORT, "finetune_steps": 3, "finetune_batch": 8, "cluster_size": 4, "classifier_epochs": 1},
    DEXML: {**SHORT, "finetune_steps": 3, "finetune_batch": 8},
    Renee: {**SHORT, "frozen_epochs": 1, "epochs": 1, "batch": 8, "learning_rate": 1e-3},
    XRTransformer: {
        "precision": "fp32", "instance_length": 24, "steps": 4, "batch": 8, "leaf": 2, "branches": 2, "min_clusters": 2
    },
}  # fmt: skip


#: Inputs of every training, with another value: parameters, and what is not one.
COMMON = {
    "instance_length": 20, "label_length": 12, "instance_prompt": "the ", "label_prompt": "the ", "warmup": 0.5,
    "clip": 8.0, "temperature": 0.5, "precision": "bf16", "cached_tokens": 32, "recomputed_layers": True,
    "head": "cls", "seed": 1, "backbone": lambda world: world.other_weights,
}  # fmt: skip
DOCUMENTS = {"raw_X": lambda world: Texts.from_lists(world.stories[0].titles, [*world.stories[0].contents][::-1])}
SAME_RANKING = {
    "raw_X": lambda world: Texts.from_lists(
        world.stories[0].titles, [f"{text} everywhere" for text in world.stories[0].contents]
    ),
    "raw_Y": lambda world: Texts.from_lists([f"{title} everyone" for title in world.stories[1].titles]),
}
LABELS = {"raw_Y": lambda world: Texts.from_lists([f"{title} story" for title in world.stories[1].titles])}
ALONE = {**COMMON, **DOCUMENTS, "batch": 5, "learning_rate": 2e-3, "steps": 3}
CONTEXTS = {"title_dropout": 0.1, "min_sentences": 1, "sentences": "punkt"}
STAGES = {
    "kmeans_restarts": 2, "kmeans_points": 7, "clusters": 4, "clusters_doubled_every": 2, "clusters_updated_every": 2,
    "cluster_length": 12, "sampled_labels": 3, "label_temperature": 0.5, "twins": "cluster", "held_out": 3,
    "adaptive_clustering": False, "label_regularization": False, "negatives": "all",
}  # fmt: skip
#: The weights that Stage II starts from are those that Stage I ends with.
SECOND = {
    "steps": 5, "pseudo_top": 1, "pseudo_mix": "sum", "pseudo_twice": True, "pseudo_loss": "equation-2",
    "hard_negatives": 1, "negative_margin": 0.1, "pseudo_replay": 0.5, "pseudo_steps": 3,
    "pseudo_bm25": True, "pseudo_recipe": "sklearn", "min_pseudo_score": 0.999, "min_pseudo_margin": 0.1,
    "pseudo_rounds": 2,
}  # fmt: skip
ON_PAIRS = {
    **COMMON, **DOCUMENTS, **LABELS, "pairs": lambda world: world.stories[2][::-1], "finetune_steps": 4,
    "finetune_batch": 4, "finetune_rate": 2e-3,
}  # fmt: skip


def add_learning_case(site, kind, method, *others, within="", **values):
    """A method that makes a key while it learns: without pairs, or with those of the stories where it needs some."""

    def run(world, raw_X=None, raw_Y=None, pairs=None, **changed):
        supervised = "pairs" in CASES[number].others
        world.fit(
            method,
            raw_X or world.stories[0],
            raw_Y or world.stories[1],
            pairs if pairs is not None or not supervised else world.stories[2],
            **{"backbone": world.checkpoint, **VALUES[method], **values, **changed},
        )

    number = len(CASES)
    case(site, kind, None, False, within, **{name: value for inputs in others for name, value in inputs.items()})(run)


add_learning_case("methods.simcse:SimCSE._train", "training", SimCSE, ALONE)
add_learning_case("methods.rts:RTS._train", "training", RTS, ALONE, LABELS, {"min_words": 3, "max_words": 5})
add_learning_case("methods.ict:ICT._train", "training", ICT, ALONE, CONTEXTS)
add_learning_case(
    "methods.lmtx:LMTX._learn",
    "training",
    LMTX,
    ALONE,
    LABELS,
    {"margin": 0.1, "hardest": 2, "sharpness": 0.5, "relevant": -1.0, "shortlist": 3, "rounds": 1, "documents": 9},
)
add_learning_case("methods.maclr:MACLR._first_stage", "training", MACLR, ALONE, LABELS, CONTEXTS, STAGES)
add_learning_case(
    "methods.maclr:MACLR._first_clusters",
    "clusters",
    MACLR,
    {name: COMMON[name] for name in ("backbone", "head", "precision")},
    {name: STAGES[name] for name in ("clusters", "kmeans_restarts", "kmeans_points", "cluster_length", "held_out")},
    DOCUMENTS,
)
SELF_TRAINING = "methods.maclr.self_training:SelfTraining"
STAGE = (f"{SELF_TRAINING}._pseudo_task", "training", MACLR)
AFTER = {"within": f"{SELF_TRAINING}._second_stage", "pseudo_mix": "sum", "pseudo_twice": False}
HARD = {"hard_negatives": 1, "hard_first": 1, "hard_last": 4, "pseudo_top": 1}
SOFT = {"pseudo_loss": "soft", "soft_labels": 3}
add_learning_case(*STAGE, SECOND, DOCUMENTS, LABELS, within=AFTER["within"])
# With more labels of the encoder per document, they may have those of TF-IDF among them.
add_learning_case(*STAGE, {"pseudo_tfidf": False}, within=AFTER["within"], pseudo_top=1)
add_learning_case(
    *STAGE,
    {"hard_negatives": 2, "hard_first": 2, "hard_last": 5, "negatives": "all", "pseudo_bm25": True},
    **AFTER,
    **HARD,
)
add_learning_case(*STAGE, {"soft_labels": 2, "soft_sharpness": 9.0, "pseudo_bm25": True}, **AFTER, **SOFT)
# Without a Stage I, its weights say nothing of the inputs; nor do pseudo labels of a word that all texts have.
add_learning_case(*STAGE, SAME_RANKING, {"negatives": "all"}, **AFTER, steps=0, pseudo_encoder=False)
add_learning_case(
    f"{SELF_TRAINING}._nearest_by_encoder",
    "nearest",
    MACLR,
    {name: COMMON[name] for name in ("backbone", "instance_length", "label_length", "head", "precision", "seed")},
    {"pseudo_top": 2},
    DOCUMENTS,
    LABELS,
    steps=0,
)
add_learning_case(
    "methods.encoder.dual_encoder:DualEncoder._train_on_pairs",
    "unfinished training",
    SentBERT,
    ON_PAIRS,
    {"negatives": "all", "finetune_balanced": True},
)
add_learning_case(
    "methods.encoder.dual_encoder:DualEncoder._train_on_pairs",
    "unfinished training",
    NGAME,
    ON_PAIRS,
    {"cluster_size": 3, "clusters_updated_every": 2, "pair_loss": "contrastive", "margin": 0.2, "hardest": 2},
)
add_learning_case(
    "methods.encoder.dual_encoder:DualEncoder._train_on_pairs",
    "unfinished training",
    DEXML,
    ON_PAIRS,
    {"pool": "hard", "loss": "top-k"},
)
add_learning_case(
    "methods.encoder.dual_encoder:DualEncoder._train_on_pairs",
    "unfinished training",
    DEXML,
    {"hard_negatives": 2, "shortlist": 3, "mined_every": 1, "top_k": 2, "top_k_sharpness": 1.0},
    {"pairs": ON_PAIRS["pairs"]},
    pool="hard",
    loss="top-k",
)
add_learning_case(
    "methods.renee:Renee._train_both",
    "unfinished training",
    Renee,
    {name: value for name, value in ON_PAIRS.items() if not name.startswith(("finetune", "cached"))},
    {"batch": 5, "learning_rate": 2e-3, "epochs": 2, "frozen_epochs": 0, "label_texts": False, "text_weight": 1.0},
    {"classifier_rate": 0.1, "momentum": 0.5, "dropout": 0.2, "offset": 3.0},
)
add_learning_case(
    "methods.xr_transformer:XRTransformer._finetune_levels",
    "unfinished training",
    XRTransformer,
    {
        name: value
        for name, value in ON_PAIRS.items()
        if not name.startswith(("finetune", "label", "raw_Y", "temp", "cached"))
    },
    {"batch": 5, "learning_rate": 2e-3, "steps": 6, "guesses": 3, "shortlist": 4, "negative_cost": 0.5, "leaf": 3},
)


@case(
    "methods.maclr.pseudo_pairs:tfidf_ranking",
    "nearest",
    pseudo_pairs.tfidf_ranking,
    raw_X=OTHER_X,
    read=OTHER_X,
    raw_Y=OTHER_Y,
    depth=3,
    recipe="pecos",
)
def _(world, raw_X=X, read=X, raw_Y=Y, depth=2, recipe="sklearn"):
    pseudo_pairs.tfidf_ranking(world.store, raw_X, read, raw_Y, depth, recipe)


@case(
    "methods.maclr.pseudo_pairs:bm25_ranking",
    "nearest",
    pseudo_pairs.bm25_ranking,
    raw_X=OTHER_X,
    raw_Y=OTHER_Y,
    depth=3,
)
def _(world, raw_X=X, raw_Y=Y, depth=2):
    pseudo_pairs.bm25_ranking(world.store, raw_X, raw_Y, depth)


@case("methods.maclr.pseudo_pairs:share_ranking", "nearest", identity=2)
def _(world, identity=1):
    pseudo_pairs.share_ranking(world.store, {"a": identity}, world.fit, 6, 2)


class Frequent(Method):
    """A method with a parameter and a part."""

    weight: float = 1.0

    def uses(self):
        return ("inner",) if self.weight else ()


OTHER_RANKING = {
    "name": "other", "weight": 2.0, "seed": 1, "raw_X": OTHER_X, "raw_Y": OTHER_Y, "new": OTHER_X, "k": 4,
    "pairs": OTHER_PAIRS,
}  # fmt: skip


@case("runner.parts:Part.ranking", "ranking", **OTHER_RANKING, inner=2.0)
def _(world, name="frequent", weight=1.0, seed=0, raw_X=X, raw_Y=Y, new=X, k=3, pairs=PAIRS, inner=1.0):
    outer = Frequent()
    outer.seed, outer.artifacts = seed, world.store
    used = [(Frequent, {"weight": weight}), (Frequent, {"weight": inner})]
    world.monkeypatch.setattr("xmcbench.runner.parts.through", lambda method: used)
    world.monkeypatch.setattr("xmcbench.runner.parts.source", lambda method: source_of(Frequent))
    Part(name, name, {"weight": weight}, Frequent, outer).ranking((raw_X, raw_Y, new), pairs, k)


@case("runner.parts:keep_ranking", "ranking", **OTHER_RANKING)
def _(world, name="frequent", weight=1.0, seed=0, raw_X=X, raw_Y=Y, new=X, k=3, pairs=PAIRS):
    method = Frequent(weight=weight)
    method.artifacts = world.store
    key = ranking_key(name, method, (raw_X, raw_Y, new), pairs, k, seed)
    keep_ranking(key, method, world.file("predictions.npz", ""), 1.0)


@case("runner.prediction:load_pretraining", "pretraining", train=OTHER_X, labels=OTHER_Y, identity=2)
def _(world, train=X, labels=Y, identity=1):
    method = Frequent()
    method.artifacts = world.store
    load_pretraining(method, train, labels, {"a": identity})


@case("runner.job:training_key", "", method="c", parameter=2, dataset_sha256="b", subset_sha256="c", seed=1)
def _(world, method="b", parameter=1, dataset_sha256="a", subset_sha256="b", seed=0):
    setting, said = Setting.of("full"), SimpleNamespace(supervision="required", deterministic=False)
    values = {"dataset_sha256": dataset_sha256, "subset_sha256": subset_sha256, "seed": seed}
    cell = Cell(dataset="Data", setting=setting, method="outer", parameters={}, **values)
    key = training_key(cell, method, {"a": parameter}, said)
    world.made.append(Made("", {"key": key}, frozenset(["xmcbench.runner.job:training_key"])))


@case("data.store:get_cached", "train", identity=2)
def _(world, identity=1):
    data_store.get_cached("train", {"a": identity}, world.fit)


@case("data.store:get_corpus", "train", name="b.txt", content="b", layout="c", separator=",")
def _(world, name="a.txt", content="a", layout="b", separator=";"):
    class Layout:
        pass

    source = Layout()
    source.name, source.options, source.place = layout, {"x"}, SimpleNamespace(options={"x": separator, "y": 1})
    file = world.file(name, content)
    data_store.get_corpus(SimpleNamespace(kind="train", files=(file,), path=file), source)


@case("data.sources.columns:list_columns", "columns", content="b")
def _(world, content="a"):
    columns.list_columns([world.file("train.jsonl", content)])


@case("data.dataset:filter_store", "filter", content="b", rows=3, columns=4)
def _(world, content="a", rows=2, columns=3):
    datasets.filter_store(world.file("filter.txt", content), rows, columns)


@case("data.opening:split", "split", folder="train/b", share=0.3, seed=1)
def _(world, folder="train/a", share=0.2, seed=0):
    opening.split(SimpleNamespace(folder=cache_root() / folder), 3, share, seed)


@case("data.dataset:Dataset._own", "own-labels", test="b", labels="b")
def _(world, test="a", labels="a"):
    corpora = {"test_corpus": SimpleNamespace(uids=True), "label_corpus": SimpleNamespace(uids=True)}
    Dataset._own.func(SimpleNamespace(corpora=["train", test, labels], **corpora))


def derivation_case(wanted, **others):
    """Cases of datasets that are made from another."""

    def run(world, digest="a", corpora=("train/a", "test/a", "labels/a"), **changed):
        whole = SimpleNamespace(rows=9)
        parent = SimpleNamespace(digest=digest, corpora=[*corpora], train_corpus=whole, label_corpus=whole)
        derive = Derivation("a", **{**wanted, **changed})
        opening.derive(parent, Card(name="b", slug="b", derive=derive))

    return {"run": run, "others": {"digest": "b", "corpora": ("train/b", "test/a", "labels/a"), **others}}


for wanted, others in (
    ({"titles": True}, {}),
    ({"held_out": 2, "seed": 0}, {"held_out": 3, "seed": 1}),
    ({"labels": 2, "seed": 0}, {"labels": 3, "seed": 1}),
):
    made = derivation_case(wanted, **others)
    case("data.opening:derive", "derived", **made["others"])(made["run"])


@case("data.opening:with_limit", "limited", digest="b", corpora=("train/b", "test/a", "labels/a"), limit="3")
def _(world, digest="a", corpora=("train/a", "test/a", "labels/a"), limit="2"):
    sides = dict.fromkeys(("train_corpus", "test_corpus"), SimpleNamespace(rows=9))
    opening.with_limit(SimpleNamespace(digest=digest, corpora=[*corpora], **sides), limit)


#: What makes the key of a checkpoint: tests/methods/encoder/test_training.py.
ELSEWHERE = ["xmcbench.methods.encoder.training:train"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One store for all cases, as a runs folder has one for all cells."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def world(folder, tmp_path, monkeypatch, checkpoint, stories):
    """The store, texts and files that cases make keys of."""

    def fit(cls, raw_X, raw_Y, pairs=None, seed=0, **values):
        method = cls(**values)
        method.seed, method.artifacts = seed, Artifacts(folder)
        if hasattr(method, "pretrain"):
            method.pretrained = method.pretrain(raw_X, raw_Y)
        method.fit(raw_X, raw_Y, pairs)

    def file(name, content):
        (tmp_path / name).write_text(content)
        return tmp_path / name

    def train(network, task, plan, state, identity, device):
        """Other weights for each identity, without a training."""
        torch.manual_seed(int(sha256_json([identity, plan.identity()])[:8], 16))
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.01 * torch.randn_like(parameter))
        return History(plan.steps)

    monkeypatch.setattr(tower, "train", train)
    monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "cache"))
    other = shutil.copytree(checkpoint(), tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    save_file({name: weight + 0.1 for name, weight in weights.items()}, other / "model.safetensors", {"format": "pt"})
    return SimpleNamespace(
        store=Artifacts(folder),
        monkeypatch=monkeypatch,
        stories=stories,
        checkpoint=str(checkpoint()),
        other_weights=str(other),
        fit=fit,
        file=file,
    )


@pytest.fixture
def keys(world, monkeypatch):
    """The keys that a case makes, with other values of some inputs."""

    def of(chosen, **changed):
        with monkeypatch.context() as patched, suppress(Stop):
            world.made = record(patched, chosen.kind if chosen.stops else None)
            chosen.run(world, **{name: _in(world, value) for name, value in changed.items()})
        return [entry.key for entry in world.made if entry.kind == chosen.kind and chosen.within in entry.functions]

    return of


def _in(world, value):
    return value(world) if isinstance(value, FunctionType) else value


@pytest.fixture
def found(keys):
    """The keys that a case makes, by the input that has another value; "" for none. They are made once."""

    def of(chosen):
        if id(chosen) not in FOUND:
            others = {name: keys(chosen, **{name: value}) for name, value in chosen.others.items()}
            FOUND[id(chosen)] = {"": keys(chosen), **others}
        return FOUND[id(chosen)]

    return of


FOUND = {}


@pytest.mark.parametrize("chosen", CASES, ids=lambda chosen: f"{chosen.site}-{chosen.kind}")
def test_each_input_is_in_the_key(chosen, found, keys):
    plain = found(chosen)[""]
    assert plain
    assert plain == keys(chosen)
    same = [name for name, made in found(chosen).items() if name and made == plain]
    assert same == [], "these inputs change what is kept, but not its key"
    if chosen.of is not None:
        missing = {*inspect.signature(chosen.of).parameters} - {"artifacts", *chosen.others}
        assert missing == set(), "these inputs have no other value in the case"


def test_every_entry_of_a_key_is_made_of_an_input(found):
    """An entry that no case changes could be left out without notice."""
    constant, changed = set(), set()
    for chosen in CASES:
        made = [dict(entries(key)) for several in found(chosen).values() for key in several]
        for name in {*chain(*made)}:
            values = {key.get(name) for key in made}
            (changed if len(values) > 1 else constant).add((chosen.kind, name))
    assert constant - changed == set(), "add an input that changes these entries to a case"


def test_every_function_that_makes_a_key_has_a_case():
    assert sites() - {*ELSEWHERE} - {chosen.site for chosen in CASES} == set(), "add a case for these functions"
    assert {chosen.site for chosen in CASES} - sites() == set(), "these functions make no key"
