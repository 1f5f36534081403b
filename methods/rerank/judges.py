"""Judges: a model on this machine, or one behind a server that speaks the protocol of OpenAI's chat completions."""

from __future__ import annotations

import hashlib
import math
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING, Any

from xmcbench import Compute, MethodError, UsageError
from xmcbench.methods.declarations import PrecisionName
from xmcbench.methods.encoder.saved_config import Architecture, ModelConfig, read_config
from xmcbench.methods.rerank.judgments import Judge, Pair

if TYPE_CHECKING:
    import httpx

#: The variable with the key of the server.
KEY = "OPENAI_API_KEY"
#: What a model is told if nothing else is given.
INSTRUCTION = "Judge whether the label fits the document."
#: Attempts for a request, and the longest wait between two, in seconds.
_ATTEMPTS, _LONGEST_S = 6, 60.0
#: Seconds until a request counts as lost.
_TIMEOUT_S = 120.0
#: Answers of a server that may be different next time.
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
#: The likeliest first words that a server is asked for, among which yes and no are looked for.
_TOP = 20
#: The probability that yes and no have together at least, where one of them is the answer.
_LEAST = 0.01
_HINTS = {
    401: f"set {KEY} to a valid key",
    403: f"set {KEY} to a key that may use the model",
    404: "check the url, which often ends in /v1, and the name of the model",
}


class Server:
    """A judge on a server: the score is the probability of yes among yes and no, or 1 or 0 without probabilities. A
    model that reasons before it answers is refused: its first word is neither. url: up to the part before
    ``/chat/completions``. at_once: requests that wait for an answer at a time. words: of a document, at most; the rest
    is cut. counts: requests, retries, and tokens as the server counts them."""

    def __init__(self, url: str, model: str, instruction: str | None, at_once: int, words: int | None) -> None:
        """Raise UsageError for something else than an address of the Web."""
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url} is not the address of a server", "for example http://localhost:8000/v1")
        self._url, self._model, self._words = f"{url.rstrip('/')}/chat/completions", model, words
        self._instruction = f"{instruction or INSTRUCTION} Answer yes or no."
        self._at_once = at_once
        told = hashlib.sha256(self._instruction.encode()).hexdigest()[:12]
        self.identity = f"server {model}, told {told}" + (f", {words} words" if words else "")
        self.counts = {"requests": 0, "retries": 0, "prompt_tokens": 0, "completion_tokens": 0}
        self._lock = Lock()

    def judge(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, float]]:
        """Yield the position of a pair and its score, as answers come. Raises MethodError where there is none."""
        import httpx

        key = os.environ.get(KEY)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=self._at_once, max_keepalive_connections=self._at_once)
        with (
            httpx.Client(headers=headers, timeout=_TIMEOUT_S, limits=limits) as client,
            ThreadPoolExecutor(self._at_once) as pool,
        ):
            asked = {pool.submit(self._ask, client, *pair): position for position, pair in enumerate(pairs)}
            try:
                for answer in as_completed(asked):
                    yield asked[answer], answer.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _ask(self, client: httpx.Client, document: str, label: str) -> float:
        if self._words:
            document = " ".join(document.split()[: self._words])
        messages = [
            {"role": "system", "content": self._instruction},
            {"role": "user", "content": f"Document: {document}\n\nLabel: {label}"},
        ]
        options = {"max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": _TOP}
        return self._send(client, {"model": self._model, "messages": messages, **options})

    def _send(self, client: httpx.Client, request: Mapping[str, Any]) -> float:
        """Return the score in the answer to a request, with retries. Raises MethodError."""
        import httpx

        for attempt in range(1, _ATTEMPTS + 1):
            wait_s, problem = min(_LONGEST_S, 2.0**attempt / 4) * random.uniform(0.5, 1), ""
            self._count(requests=1, retries=attempt > 1)
            try:
                answer = client.post(self._url, json=request)
                if answer.status_code == httpx.codes.OK:
                    document = answer.json()
                    score = read_score(document)
                    usage = document.get("usage") or {}
                    self._count(**{name: int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")})
                    return score
                problem = f"HTTP {answer.status_code}: {' '.join(answer.text.split())[:200]}"
                if answer.status_code not in _TRANSIENT:
                    raise MethodError(f"{self._url}: {problem}", _HINTS.get(answer.status_code, ""))
                wait_s = max(wait_s, _retry_after(answer.headers.get("retry-after", "")))
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}".rstrip(": ")
            except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
                problem = f"the answer is not a chat completion: {type(error).__name__}: {error}"
            if attempt < _ATTEMPTS:
                sleep(wait_s)
        raise MethodError(f"{self._url}: {problem} ({_ATTEMPTS} attempts)", "what was answered is kept: run again")

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, number in more.items():
                self.counts[name] += number


def read_score(document: Mapping[str, Any]) -> float:
    """Return the score in a chat completion, 0 to 1. Raises ValueError where it says neither yes nor no, KeyError,
    IndexError, TypeError or AttributeError for a document that is none."""
    choice = document["choices"][0]
    listed = ((choice.get("logprobs") or {}).get("content") or [{}])[0].get("top_logprobs") or []
    found = {"yes": 0.0, "no": 0.0}
    for entry in listed:
        word = str(entry["token"]).strip().strip('."*').casefold()
        if word in found:
            found[word] += math.exp(float(entry["logprob"]))
    # A model that reasons begins with another word, and the little that is left for these two is noise.
    if (total := sum(found.values())) >= _LEAST:
        return found["yes"] / total
    content = str(choice["message"]["content"] or "")
    said = re.match(r"\W*(yes|no)\b", content, re.IGNORECASE)
    if said is None:
        raise ValueError(f"the model says neither yes nor no but {content[:40]!r}")
    return float(said[1].casefold() == "yes")


def _retry_after(value: str) -> float:
    """Return the seconds that a server asks to wait, at most a minute; 0 where it names a date or nothing."""
    try:
        return min(_LONGEST_S, max(0.0, float(value)))
    except ValueError:
        return 0.0


#: Characters of a word of English with its space, and of a token, about; tokens around both texts.
_OF_WORD, _OF_TOKEN, _AROUND = 6, 4, 20


def judge_inputs(parameter: str, model: str, url: str | None, judgments: str | None) -> dict[str, Path | str]:
    """Return the inputs of a judge: the model that a parameter names, with its commit, and a file of judgments."""
    from xmcbench.methods.encoder.backbone import model_input

    kept: dict[str, Path | str] = {"judgments": Path(judgments)} if judgments else {}
    return {**(model_input(parameter, model) if url is None else {}), **kept}


def require_judge(model: str, url: str | None, judgments: str | None) -> None:
    """Raise Unavailable where the model is not available. Raises UsageError without a judge in a folder, or a file of
    judgments."""
    from xmcbench.methods.embedder.folder import check_folder
    from xmcbench.methods.encoder.backbone import require_located

    if judgments and not Path(os.path.expanduser(judgments)).is_file():
        raise UsageError(f"there is no file of judgments at {judgments}", "xmcbench export judgments makes one")
    if url is None:
        require_located(model)
        check_folder(model)
        check_cross_encoder(Path(os.path.expanduser(model)))


def open_judge(
    model: str,
    url: str | None,
    compute: Compute,
    precision: PrecisionName,
    max_length: int | None,
    batch: int,
    instruction: str | None,
) -> tuple[Judge, Mapping[str, object]]:
    """Open a judge; return it with facts about its model. Raises Unavailable without it, UsageError for no judge."""
    if url is not None:
        return Server(url, model, instruction, batch, max_length), {"name": model, "source": "a server", "sha256": ""}
    judge = CrossEncoder(model, compute, precision, max_length, batch, instruction)
    return judge, judge.notes


def estimate_tokens(
    calls: int, characters: tuple[float, float], url: str | None, max_length: int | None, instruction: str | None
) -> int:
    """Return about how many tokens questions have. characters: mean lengths of documents and labels."""
    document, label = characters
    if max_length:
        document = min(document, max_length * (_OF_TOKEN if url is None else _OF_WORD))
    return round(calls * (_AROUND + (document + label + len(instruction or "")) / _OF_TOKEN))


#: Pairs that are handed to the model at a time.
_PAIRS = 8192


class CrossEncoder:
    """A judge by sentence-transformers. notes: facts about the model."""

    def __init__(
        self,
        name: str,
        compute: Compute,
        precision: PrecisionName,
        max_length: int | None,
        batch: int,
        instruction: str | None,
    ) -> None:
        """Open the model. Raises Unavailable where it is not available, UsageError where it is not a cross-encoder."""
        from xmcbench.methods.embedder.model import open_other

        model, notes = open_other("CrossEncoder", name, compute.device, precision, max_length, check_cross_encoder)
        if model.num_labels != 1:
            raise UsageError(f"{name} gives {model.num_labels} scores for a pair", "choose a model with one output")
        answers = getattr(model[-1], "true_token_id", 1), getattr(model[-1], "false_token_id", 0)
        if answers[0] == answers[1]:
            raise UsageError(f"the tokenizer of {name} has no words yes and no", "choose another model")
        self.model, self._batch, self._instruction, self.notes = model, batch, instruction, notes
        self.counts: dict[str, int] = {}
        told = f", told {instruction!r}" if instruction else ""
        self.identity = f"{notes['sha256']}, {notes['precision']}, {model.max_seq_length} tokens{told}"

    def judge(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, float]]:
        """Yield the position of a pair and its score."""
        for start in range(0, len(pairs), _PAIRS):
            scores = self.model.predict(
                list(pairs[start : start + _PAIRS]),
                prompt=self._instruction,
                batch_size=self._batch,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            yield from enumerate(scores.astype("float32").tolist(), start)


def check_cross_encoder(folder: Path) -> None:
    """Raise UsageError where a folder says of itself that it is another model. sentence-transformers would put an
    output of random weights on any encoder, and have a causal model without a chat template read two texts as one."""
    if not folder.is_dir():
        return
    model = read_config(folder / "config_sentence_transformers.json", ModelConfig)
    transformer = read_config(folder / "config.json", Architecture)
    (kind, *_) = (transformer and transformer.architectures) or [""]
    if (model is not None and model.model_type == "CrossEncoder") or kind.endswith("ForSequenceClassification"):
        return
    if not kind.endswith("ForCausalLM"):
        raise UsageError(f"{folder} is not a cross-encoder: {kind or 'its architecture is not stated'}")
    tokenizer = read_config(folder / "tokenizer_config.json", dict[str, Any]) or {}
    if not (folder / "chat_template.jinja").is_file() and not tokenizer.get("chat_template"):
        raise UsageError(f"{folder} is a language model without a chat template", "choose one for chats or reranking")
