import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading

import pytest
from fake_server import Fake

from xmcbench import Artifacts, Texts

WORDS = (  # noqa: SIM905
    "the a of and about story apple bridge candle desert engine forest garden harbor island jungle "
    "red green old new large small sees likes finds makes"
).split()
SIZE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def save_checkpoint(folder, kind="bert", pooling="mean", dropout=0.1, words=WORDS):
    """A tiny transformer with its tokenizer, as `save_pretrained` and sentence-transformers lay them out."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    if kind in ("mpnet", "roberta"):  # their padding has the number 1, which MPNet's positions are counted by
        special[:2] = special[1::-1]
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    fast = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    fast.normalizer, fast.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    fast.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    transformers.PreTrainedTokenizerFast(tokenizer_object=fast, **names).save_pretrained(folder)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    common = {"vocab_size": len(vocabulary), "pad_token_id": special.index("[PAD]")}
    config = {
        "bert": lambda: transformers.BertConfig(**SIZE, **rates, **common, max_position_embeddings=64),
        "roberta": lambda: transformers.RobertaConfig(**SIZE, **rates, **common, max_position_embeddings=66),
        "mpnet": lambda: transformers.MPNetConfig(
            **SIZE, **rates, vocab_size=len(vocabulary), max_position_embeddings=66
        ),
        "distilbert": lambda: transformers.DistilBertConfig(
            dim=16, n_layers=2, n_heads=2, hidden_dim=32, dropout=dropout, attention_dropout=dropout, **common
        ),
    }[kind]()
    torch.manual_seed(0)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    if pooling:
        modules = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Normalize", "Normalize")]
        listed = [
            {"idx": i, "name": n, "path": p, "type": f"sentence_transformers.models.{t}"}
            for i, (n, p, t) in enumerate(modules)
        ]
        (folder / "modules.json").write_text(json.dumps(listed))
        (folder / "1_Pooling").mkdir()
        flags = {
            f"pooling_mode_{name}": name.startswith(pooling) for name in ("cls_token", "mean_tokens", "max_tokens")
        }
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **flags}))
    return folder


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """For networks this small a second thread only waits for the first."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """Tiny checkpoints by kind and options, made once."""
    made = {}

    def get(kind="bert", **options):
        key = (kind, *sorted(options.items()))
        if key not in made:
            made[key] = save_checkpoint(tmp_path_factory.mktemp(kind), kind, **options)
        return made[key]

    return get


@pytest.fixture
def imported():
    """Import a script of this folder under its own name, by which its source is found."""

    def get(script):
        spec = importlib.util.spec_from_file_location(script.stem, script)
        sys.modules[script.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[script.stem])
        return sys.modules[script.stem]

    return get


@pytest.fixture
def side_by_side():
    """Run a script twice at once, as ranks that can meet; "{rank}" in its words and its environment is the rank.

    Returns the exit statuses and what stood on stderr.
    """

    def run(script, words, environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "RANK": "{rank}"}
        running = []
        for rank in "01":
            own = {name: value.format(rank=rank) for name, value in (environment | meeting).items()}
            command = [sys.executable, str(script), *(str(word).format(rank=rank) for word in words)]
            running.append(subprocess.Popen(command, env={**os.environ, **own}, stderr=subprocess.PIPE, text=True))
        errors = [process.communicate(timeout=200)[1] for process in running]
        return [process.returncode for process in running], errors

    return run


@pytest.fixture
def volta(monkeypatch):
    """Choose as on a V100, which multiplies float16 faster than float32 and only emulates bfloat16.

    The network stays on the CPU.
    """
    import torch

    from xmcbench.methods.encoder import hardware

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 0))
    original = hardware.choose_precision
    return lambda precision, device: original(precision, "cuda")


@pytest.fixture
def artifacts(tmp_path):
    return Artifacts(tmp_path / "artifacts")


THINGS = WORDS[6:16]


@pytest.fixture(scope="module")
def stories():
    """30 documents, 10 labels, and the two labels of each document as pairs."""
    import numpy as np
    from scipy.sparse import csr_matrix

    titles = [f"{THINGS[row % 10]} story" for row in range(30)]
    contents = [f"The old {THINGS[row % 10]}. It likes the {THINGS[(row + 3) % 10]}." for row in range(30)]
    columns = np.sort(np.array([[row % 10, (row + 3) % 10] for row in range(30)]), axis=1).ravel()
    pairs = csr_matrix((np.ones(60, np.float32), columns, np.arange(0, 61, 2)), shape=(30, 10))
    return Texts.from_lists(titles, contents), Texts.from_lists([f"the {thing}" for thing in THINGS]), pairs


@pytest.fixture
def fit_and_predict(checkpoint, stories, tmp_path):
    """Train a method on the stories, on a tiny checkpoint, and rank the labels of some texts."""

    def go(kind, values, pairs=None, k=5, labels=None, new=None, seed=0, **changed):
        raw_X, raw_Y, known = stories
        raw_Y = raw_Y if labels is None else labels
        method = kind(backbone=str(checkpoint()), **{**values, **changed})
        method.artifacts, method.seed = Artifacts(tmp_path / "store"), seed
        method.require()
        method.fit(raw_X, raw_Y, known if pairs is None else pairs)
        asked = raw_X if new is None else new
        found = method.predict(asked, k)
        found.check(len(asked), k, len(raw_Y))
        return found, method

    return go


@pytest.fixture
def token_pairs(checkpoint, tmp_path):
    """Tokens of 20 documents and of some labels, and which labels are true: bool, at least one in a row."""

    def make(labels=6, density=0.3):
        import numpy as np

        from xmcbench.methods.encoder.opening import open_tokenizer
        from xmcbench.methods.encoder.tokens import TokenStore

        rng = np.random.default_rng(0)
        dense = rng.random((20, labels)) < density
        dense[np.arange(20), rng.integers(labels, size=20)] = True
        texts = [Texts.from_lists([f"story {'red ' * (row % 5)}" for row in range(count)]) for count in (20, labels)]
        stores = [TokenStore.of(Artifacts(tmp_path), side, open_tokenizer(checkpoint()), 8) for side in texts]
        return stores, dense

    return make


@pytest.fixture
def batch():
    """Cosines of 5 documents with 6 labels [5, 6], the label of each, and those that are true as well, bool."""
    import numpy as np

    cosines = np.random.default_rng(0).uniform(-1, 1, (5, 6))
    own, true = np.eye(5, 6, 1, bool), np.zeros((5, 6), bool)
    true[0, 3] = True
    true[4] = True  # no negative is left
    return cosines, own, true


@pytest.fixture
def predicted(stories, tmp_path):
    """Fit a method to the stories, without pairs; returns its k labels for texts, and the method."""

    def run(method, texts, k):
        method.artifacts = Artifacts(tmp_path / "store")
        method.require()
        method.fit(*stories[:2])
        found = method.predict(texts, k)
        found.check(len(texts), k, len(stories[1]))
        json.dumps(method.notes, allow_nan=False)
        return found, method

    return run


TEMPLATE = "{% for message in messages %}{{ message['role'] }} : {{ message['content'] }} {% endfor %}answer :"
ANSWERS = "yes no query document system answer relevant ? : the old apple red bridge and green island candle"


@pytest.fixture
def language_model(tmp_path):
    """A tiny causal language model with a chat template; returns its folder."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    def save(words=ANSWERS, template=TEMPLATE):
        vocabulary = {word: number for number, word in enumerate(["<pad>", "<unk>", *words.split()])}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        special = {"pad_token": "<pad>", "unk_token": "<unk>", "padding_side": "left", "model_max_length": 64}
        torch.manual_seed(3)
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary), pad_token_id=0, **sizes))
        folder = tmp_path / "language-model"
        model.save_pretrained(folder)
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=template, **special).save_pretrained(folder)
        return folder

    return save


@pytest.fixture
def fake():
    made = Fake()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()
