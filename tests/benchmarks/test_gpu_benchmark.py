"""Training an encoder of the size of BERT-base on a GPU, with random weights: time of a step, memory of MACLR's paper.

All documents fill their 288 tokens. The time is compared with the loop that a user would write: both sides padded to
the longest text of the batch, in fp32 and under autocast in bf16. All take turns, and the median of the ratios counts.
Nothing else may use the GPU meanwhile.
"""

import statistics
import time

import pytest

from xmcbench import Artifacts, Compute, Texts, load_dataset

pytestmark = pytest.mark.gpu

BATCH, LENGTHS, TEMPERATURE, STEPS = 32, (288, 64), 0.05, 5
#: How often a step is faster than the plain loop, at least.
BARS = {"fp32": 3.0, "bf16": 1.5}
#: Bytes of a GPU that MACLR may use under the preset ``paper``.
MEMORY = 80e9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for artifacts, where there is a GPU."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return tmp_path_factory.mktemp("artifacts")


@pytest.fixture(scope="module")
def corpus():
    """512 documents of LF-Debian-20K, each repeated until it is long enough, and the labels."""
    dataset = load_dataset("lf-debian-20k")
    contents = [" ".join([content] * 12) for content in dataset.train.contents[:512]]
    return Texts.from_lists(list(dataset.train.titles[:512]), contents), dataset.labels


def our_loop(checkpoint, artifacts, texts):
    """Steps of the training loop, and the task that draws their rows."""
    import torch

    from xmcbench.methods.encoder.contrastive import TwoViews
    from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.training import DistributedContext, LossScale, TrainingPlan, _step

    tokenizer = open_tokenizer(checkpoint)
    documents = TokenStore.of(artifacts, texts, tokenizer, LENGTHS[0])
    titles = TokenStore.of(artifacts, texts, tokenizer, LENGTHS[1], titles=True)
    encoder = open_encoder(checkpoint, "native", 0, precision="bf16").cuda().train()
    task, plan = TwoViews(documents, titles, BATCH, TEMPERATURE, 0), TrainingPlan(1000, 1e-5)
    optimizer = torch.optim.AdamW(encoder.parameters(), 1e-5, fused=True)
    place, scale = DistributedContext.of("cuda"), LossScale(False, torch.device("cuda"))

    def loop():
        for step in range(STEPS):
            _step(encoder, task, optimizer, plan, step, place, scale)
        torch.cuda.synchronize()

    return loop, task


def plain_loop(checkpoint, texts, task):
    """The same steps as a user would write them, in fp32 or under autocast in bf16."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(checkpoint).cuda().train(), AutoTokenizer.from_pretrained(checkpoint)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5)
    titles, documents = list(texts.titles), list(texts)

    def vectors(part, length):
        tokens = tokenizer(part, padding=True, truncation=True, max_length=length, return_tensors="pt").to("cuda")
        mask = tokens["attention_mask"][..., None]
        pooled = (model(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(pooled, dim=1)

    def loop(bf16):
        for step in range(STEPS):
            rows = task.draw(step)["anchor"].rows
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
                anchors = vectors([documents[row] for row in rows], LENGTHS[0])
                logits = anchors @ vectors([titles[row] for row in rows], LENGTHS[1]).T / TEMPERATURE
                loss = torch.nn.functional.cross_entropy(logits, torch.arange(BATCH, device="cuda"))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()
        torch.cuda.synchronize()

    return loop


def test_training_step(benchmark, folder, corpus, capsys):
    import torch

    from xmcbench.methods.encoder.backbone import find_backbone

    artifacts = Artifacts(folder)
    checkpoint = find_backbone("scratch:12x768", artifacts, *corpus, device="cuda").folder
    ours, task = our_loop(checkpoint, artifacts, corpus[0])
    plain = plain_loop(checkpoint, corpus[0], task)
    times = {name: [] for name in BARS}

    def others():
        for name, found in times.items():
            start = time.perf_counter()
            plain(name == "bf16")
            found.append(time.perf_counter() - start)

    ours()
    others()
    for found in times.values():
        found.clear()
    benchmark.pedantic(ours, setup=others, rounds=5)
    own = benchmark.stats.stats.data
    ratios = {name: statistics.median(a / b for a, b in zip(found, own, strict=True)) for name, found in times.items()}
    spent = {
        name: round(1000 * statistics.median(seconds) / STEPS, 1) for name, seconds in (times | {"ours": own}).items()
    }
    benchmark.extra_info.update(ratios=ratios, milliseconds=spent, device=torch.cuda.get_device_name())
    with capsys.disabled():
        print(f"\n{benchmark.extra_info}")
    assert all(ratios[name] >= bar for name, bar in BARS.items())


def test_memory_of_the_paper(benchmark, folder, corpus, capsys):
    """Two steps of each stage at batch 256."""
    import torch

    from xmcbench.methods.maclr import MACLR

    short = {"backbone": "scratch:12x768", "mlm_steps": 0, "clusters": 64, "steps": 2, "pseudo_steps": 2}
    method = MACLR(**{**MACLR.presets["paper"], **short})
    assert method.batch == 256
    method.artifacts, method.compute = Artifacts(folder), Compute("cuda")
    torch.cuda.reset_peak_memory_stats()
    benchmark.pedantic(method.pretrain, corpus, rounds=1)
    found = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    benchmark.extra_info.update(found)
    with capsys.disabled():
        print(f"\n{found}")
    assert found["reserved"] <= MEMORY
