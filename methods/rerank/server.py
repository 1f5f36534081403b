"""A language model behind a server that speaks the protocol of OpenAI's chat completions (vLLM, llama.cpp, Ollama)."""

from __future__ import annotations

import hashlib
import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING, Any

from xmcbench import MethodError, UsageError
from xmcbench.methods.rerank.judgments import Pair

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
_HINTS = {
    401: f"set {KEY} to a valid key",
    403: f"set {KEY} to a key that may use the model",
    404: "check the url, which often ends in /v1, and the name of the model",
}


class Server:
    """A judge on a server: the score is the probability of yes among yes and no, or 1 or 0 without probabilities.

    url: up to the part before ``/chat/completions``. at_once: requests that wait for an answer at a time. words: of a
    document, at most; the rest is cut. counts: requests, retries, and tokens as the server counts them.
    """

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
    """Return the score in a chat completion, 0 to 1.

    Raises ValueError where it says neither yes nor no, KeyError, IndexError, TypeError or AttributeError for a document
    that is none.
    """
    choice = document["choices"][0]
    listed = ((choice.get("logprobs") or {}).get("content") or [{}])[0].get("top_logprobs") or []
    found = {"yes": 0.0, "no": 0.0}
    for entry in listed:
        word = str(entry["token"]).strip().strip('."*').casefold()
        if word in found:
            found[word] += math.exp(float(entry["logprob"]))
    if total := sum(found.values()):
        return found["yes"] / total
    said = str(choice["message"]["content"]).strip().strip('."*').casefold()
    if not said.startswith(("yes", "no")):
        raise ValueError(f"the model says neither yes nor no but {said[:40]!r}")
    return float(said.startswith("yes"))


def _retry_after(value: str) -> float:
    """Return the seconds that a server asks to wait, at most a minute; 0 where it names a date or nothing."""
    try:
        return min(_LONGEST_S, max(0.0, float(value)))
    except ValueError:
        return 0.0
