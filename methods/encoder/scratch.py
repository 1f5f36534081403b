"""An encoder without outside supervision: tokenizer and weights learned from the corpus alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from xmcbench import Artifacts, Texts
from xmcbench.methods.distributed.machines import alone
from xmcbench.methods.encoder import checkpoints
from xmcbench.methods.encoder.backbone import head_size
from xmcbench.methods.encoder.batches import Epochs, pad_texts, split_step
from xmcbench.methods.encoder.network import cheap_dropout
from xmcbench.methods.encoder.opening import open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext, Task, TrainingPlan, train

#: Entries of the vocabulary at most; BERT's has 30,522 for a corpus a thousand times as large.
VOCABULARY = 16_384
#: Maximum number of letters; rarer ones are unknown.
ALPHABET = 1000
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
#: Masked-language modeling as in BERT (Devlin et al. 2019, section 3.1): share of tokens to predict, of which 80% are
#: masked, 10% replaced, 10% kept. Texts of a step, tokens of a text; a learning rate that suits small encoders.
MASKED, BATCH, LENGTH, LEARNING_RATE = 0.15, 64, 128, 5e-4
#: Position embeddings.
POSITIONS = 512


def scratch_checkpoint(
    artifacts: Artifacts,
    raw_X: Texts,
    raw_Y: Texts,
    layers: int,
    width: int,
    *,
    steps: int,
    seed: int,
    device: str,
    precision: str,
) -> Path:
    """The folder of a BERT of ``layers`` x ``width`` for this corpus, taken from the artifacts, or made and put there.
    steps: of masked-language modeling. device, precision: of its training."""
    # Without device and precision, as pre-trainings are kept: they hold what they changed of this one checkpoint.
    identity = {
        "instances": raw_X.digest,
        "labels": raw_Y.digest,
        "shape": [layers, width],
        "steps": steps,
        "seed": seed,
    }

    def build(folder: Path) -> None:
        _train_tokenizer(folder, raw_X, raw_Y)
        tokenizer = open_tokenizer(folder)
        stores = [TokenStore.of(artifacts, texts, tokenizer, LENGTH) for texts in (raw_X, raw_Y)]
        network = _network(layers, width, width // head_size(width), folder, seed, precision)
        plan = TrainingPlan(steps, LEARNING_RATE, seed=seed)
        computed = {**identity, "precision": precision, "device": device}
        state = artifacts.unfinished("scratch", computed, scratch_checkpoint)
        with alone():  # a warm-up is short, and the same on every machine
            history = train(network, MaskedWords(stores, seed), plan, state, computed, device)
        network.cpu().model.bert.save_pretrained(folder)
        (folder / "history.json").write_text(json.dumps(history.note()))
        checkpoints.remove(state)

    return artifacts.get("scratch", identity, build)


def _train_tokenizer(folder: Path, raw_X: Texts, raw_Y: Texts) -> None:
    """A lowercasing WordPiece tokenizer of the corpus, like BERT's."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    def parts() -> Iterator[list[str]]:
        for texts in (raw_X, raw_Y):
            for batch in texts.batches():
                yield batch.to_pylist()

    trainer = BertWordPieceTokenizer(lowercase=True)
    counts: Counter[str] = Counter()
    for part in parts():
        counts.update(trainer.normalize(" ".join(part)))
    # The trainer breaks ties by the number of a piece, and numbers the letters as they come out of a hash table: only
    # where all letters have their number beforehand do two trainings give one vocabulary.
    alphabet = sorted(sorted(set(counts) - {" "}, key=lambda letter: (-counts[letter], letter))[:ALPHABET])
    trainer.train_from_iterator(
        parts(),
        vocab_size=VOCABULARY,
        min_frequency=2,
        limit_alphabet=len(alphabet),
        initial_alphabet=alphabet,
        special_tokens=[*SPECIAL, *alphabet, *(f"##{letter}" for letter in alphabet)],
        show_progress=False,
    )
    words = [*SPECIAL, *sorted(set(trainer.get_vocab()) - set(SPECIAL))]
    tokenizer = BertWordPieceTokenizer({word: number for number, word in enumerate(words)}, lowercase=True)
    tokenizer.save(str(folder / "words.json"))
    BertTokenizerFast(tokenizer_file=str(folder / "words.json"), model_max_length=POSITIONS).save_pretrained(folder)
    (folder / "words.json").unlink()


def _network(layers: int, width: int, heads: int, folder: Path, seed: int, precision: str) -> MaskedLanguageModel:
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=len(AutoTokenizer.from_pretrained(folder, local_files_only=True)),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=POSITIONS,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MaskedLanguageModel(BertForMaskedLM(config), precision == "bf16")


class MaskedLanguageModel(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """A BERT with its word predictor, evaluated only at masked positions."""

    def __init__(self, model: nn.Module, bf16: bool) -> None:
        super().__init__()
        self.model, self.bf16 = model, bf16

    def forward(self, ids: list[torch.Tensor], masks: list[torch.Tensor], places: list[torch.Tensor]) -> torch.Tensor:
        """Scores of the vocabulary at the places (bool, like the masks): float32 [masked tokens, vocabulary]."""
        device = ids[0].device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.bf16), cheap_dropout(device):
            hidden = [
                self.model.bert(input_ids=batch, attention_mask=mask.long()).last_hidden_state[place]  # type: ignore[operator, union-attr]
                for batch, mask, place in zip(ids, masks, places, strict=True)
            ]
            return cast(torch.Tensor, self.model.cls(torch.cat(hidden)).float())  # type: ignore[operator]


class MaskedWords(Task):
    """Predict masked words: the first training of an encoder."""

    def __init__(self, stores: list[TokenStore], seed: int) -> None:
        """stores: the texts of the corpus, concatenated."""
        self._stores, self._seed = stores, seed
        self._first = np.cumsum([0, *[len(store) for store in stores]])
        self._epochs = Epochs(int(self._first[-1]), BATCH, seed)

    def losses(self, step: int, network: nn.Module, context: DistributedContext) -> dict[str, torch.Tensor]:
        """Cross-entropy at the masked places of the step's texts."""
        drawn = self._epochs(step)
        drawn = drawn[context.local_slice(len(drawn))] if context.processes > 1 else drawn
        texts = [self._text(int(row)) for row in drawn]
        rng = np.random.default_rng([self._seed, step, context.rank])
        vocabulary = int(_model(network).config.vocab_size)  # type: ignore[union-attr, arg-type]
        ids: list[torch.Tensor] = []
        masks: list[torch.Tensor] = []
        places: list[torch.Tensor] = []
        words: list[np.ndarray] = []
        for batch in split_step(np.array([len(text) for text in texts]), context.device.type):
            tokens, real = pad_texts([texts[row] for row in batch], self._stores[0].pad)
            chosen = real & (tokens >= len(SPECIAL)) & (rng.random(tokens.shape) < MASKED)
            words.append(tokens[chosen])
            fate = rng.random(tokens.shape)
            tokens[chosen & (fate < 0.8)] = SPECIAL.index("[MASK]")
            replaced = chosen & (fate >= 0.8) & (fate < 0.9)
            tokens[replaced] = rng.integers(len(SPECIAL), max(vocabulary, len(SPECIAL) + 1), int(replaced.sum()))
            for store, array in ((ids, tokens), (masks, real), (places, chosen)):
                store.append(torch.from_numpy(array).to(context.device))
        scores = network(ids, masks, places)
        targets = torch.from_numpy(np.concatenate(words)).to(context.device)
        # A batch of a few short texts can have no masked word at all: its mean would be 0 / 0.
        return {"masked words": nn.functional.cross_entropy(scores, targets, reduction="sum") / max(1, len(targets))}

    def _text(self, row: int) -> np.ndarray:
        store = int(np.searchsorted(self._first, row, "right")) - 1
        return self._stores[store][row - int(self._first[store])]


def _model(network: nn.Module) -> nn.Module:
    """The network inside the wrapper of data-parallel training."""
    return cast(nn.Module, getattr(network, "module", network).model)
