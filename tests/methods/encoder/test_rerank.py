import numpy as np
import pytest
import torch

from xmcbench import Artifacts, Texts, TopK, UsageError
from xmcbench.methods.rerank import Rerank, reorder
from xmcbench.methods.tfidf import Tfidf

NEW = Texts.from_lists(["the old apple", "", "red bridge and green island"], ["candle forest", "", "garden"])


@pytest.fixture
def cross_encoder(checkpoint, tmp_path):
    """A tiny cross-encoder; returns its folder."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    def save(labels=1):
        torch.manual_seed(3)
        folder, base = tmp_path / f"cross{labels}", checkpoint(pooling="")
        AutoModelForSequenceClassification.from_pretrained(base, num_labels=labels).save_pretrained(folder)
        AutoTokenizer.from_pretrained(base).save_pretrained(folder)
        return folder

    return save


@pytest.mark.parametrize("instruction", [None, "relevant ?"])
def test_a_language_model_answers_yes_or_no(language_model, run, stories, instruction):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = language_model()
    found, method = run(folder, depth=3, instruction=instruction)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    told = f"system : {instruction} " if instruction else ""
    for row, text in enumerate(NEW):
        for label, score in zip(found.indices[row, :3].tolist(), found.scores[row, :3].tolist(), strict=True):
            if label >= 0:
                read = f"{told}query : {text} document : {stories[1][label]} answer :"
                with torch.inference_mode():
                    logits = model(**tokenizer(read, return_tensors="pt")).logits[0, -1]
                yes, no = (float(logits[tokenizer.convert_tokens_to_ids(word)]) for word in ("yes", "no"))
                assert score == pytest.approx(1 / (1 + np.exp(no - yes)), abs=1e-5)
    assert method.notes["model"]["name"] == "language-model"


def test_language_models_that_cannot_judge(language_model, run):
    with pytest.raises(UsageError, match="is a language model without a chat template"):
        run(language_model(template=None))
    with pytest.raises(UsageError, match="has no words yes and no"):
        run(language_model(words="query : the old apple"))


@pytest.fixture
def run(predicted):
    def go(folder, k=8, **values):
        return predicted(Rerank(model=str(folder), precision="fp32", **values), NEW, k)

    return go


@pytest.mark.parametrize("pairs", [3, 8192])
def test_the_first_labels_are_in_the_order_of_the_cross_encoder(
    cross_encoder, run, stories, tmp_path, monkeypatch, pairs
):
    from sentence_transformers import CrossEncoder

    monkeypatch.setattr("xmcbench.methods.rerank.judgments._PAIRS", pairs)
    folder = cross_encoder()
    found, method = run(folder, depth=2)
    first = Tfidf()
    first.artifacts = Artifacts(tmp_path / "other")
    first.fit(*stories[:2])
    before = first.predict(NEW, 8)
    reference = CrossEncoder(str(folder), device="cpu", local_files_only=True)
    for row, text in enumerate(NEW):
        labels = [label for label in before.indices[row, :2].tolist() if label >= 0]
        expected = reference.predict([(text, stories[1][label]) for label in labels]) if labels else []
        order = sorted(zip(labels, map(float, expected), strict=True), key=lambda pair: (-pair[1], pair[0]))
        assert found.indices[row, : len(labels)].tolist() == [label for label, _ in order]
        np.testing.assert_allclose(found.scores[row, : len(labels)], [value for _, value in order], atol=1e-5)
        assert found.indices[row, 2:].tolist() == before.indices[row, 2:].tolist()
    assert method.notes["pairs_read"] == int((before.indices[:, :2] >= 0).sum())
    assert method.notes["model"]["parameters"] == sum(parameter.numel() for parameter in reference.parameters())


def test_more_labels_are_reranked_than_are_predicted(cross_encoder, run):
    folder = cross_encoder()
    whole, few = (run(folder, k=k, depth=6)[0] for k in (8, 2))
    assert few.indices.tolist() == whole.indices[:, :2].tolist()
    assert few.indices.tolist() != run(folder, k=2, depth=2)[0].indices.tolist()


def test_reordered():
    found = TopK.ranked(np.array([[5, 3, 1, 0], [2, -1, -1, -1]]), np.array([[9.0, 8, 7, 6], [1, 0, 0, 0]]))
    scores = np.array([[0.1, 0.7], [-2.0, -np.inf]], np.float32)
    again = reorder(found, scores)
    assert again.indices.tolist() == [[3, 5, 1, 0], [2, -1, -1, -1]]
    again.check(2, 4, 6)
    np.testing.assert_allclose(again.scores[0], [0.7, 0.1, -0.9, -1.9], atol=1e-6)


def test_of_equal_scores_the_label_that_came_first_stays_first():
    found = TopK.ranked(np.array([[7, 3, 5, 1]]), np.array([[9.0, 8, 7, 6]]))
    again = reorder(found, np.array([[0.5, 0.5, 0.5]], np.float32))
    assert again.indices.tolist() == [[7, 3, 5, 1]]
    again.check(1, 4, 8)
    np.testing.assert_allclose(again.scores[0, :3], 0.5, atol=1e-6)
    assert TopK.ranked(again.indices, again.scores).indices.tolist() == again.indices.tolist()


@pytest.mark.parametrize("scale", [2.0**24, 5e7, 1e30])
def test_large_scores_fall_too(scale):
    """At 2^24 and beyond, a score and the same minus 1 are equal in float32."""
    found = TopK.ranked(np.array([[0, 5, 4, 3, 2]]), np.array([[9.0, 8, 7, 6, 5]]))
    for signed in (scale, -scale):
        again = reorder(found, np.array([[signed, signed]], np.float32))
        assert again.indices.tolist() == [[0, 5, 4, 3, 2]]
        again.check(1, 5, 6)


def test_longer_texts_are_cut(cross_encoder, run):
    folder = cross_encoder()
    whole, cut = (run(folder, max_length=length)[0] for length in (None, 8))
    assert not np.array_equal(whole.scores, cut.scores)


def test_texts_are_cut_at_the_models_own_length_whatever_is_asked_for(cross_encoder, predicted):
    long = Texts.from_lists(["apple " * 500], ["candle " * 500])
    own, more = (
        predicted(Rerank(model=str(cross_encoder()), precision="fp32", max_length=length), long, 8)[0]
        for length in (None, 10_000)
    )
    assert np.array_equal(own.scores, more.scores)


@pytest.mark.parametrize("precision", ["auto", "fp16"])
def test_a_gpu_without_bfloat16_takes_float16(cross_encoder, predicted, run, monkeypatch, volta, precision):
    folder = cross_encoder()
    exact, _ = run(folder)
    monkeypatch.setattr("xmcbench.methods.embedder.model.choose_precision", volta)
    found, method = predicted(Rerank(model=str(folder), precision=precision), NEW, 8)
    assert method.notes["model"]["precision"] == "fp16"
    assert {parameter.dtype for parameter in method._judge.model.parameters()} == {torch.float16}
    np.testing.assert_allclose(np.sort(found.scores[0]), np.sort(exact.scores[0]), atol=0.05)


def test_the_first_method_is_trained_on_the_pairs(cross_encoder, stories, artifacts):
    method = Rerank(model=str(cross_encoder()), precision="fp32", first="knn")
    method.artifacts = artifacts
    method.fit(*stories)
    method.predict(NEW, 3)
    assert method.notes["first"]["knn"]["training_instances_with_a_pair"] == 30


def test_an_encoder_is_no_cross_encoder(checkpoint, run):
    """sentence-transformers would put an output of random weights on it."""
    for call in (Rerank(model=str(checkpoint())).require, lambda: run(checkpoint())):
        with pytest.raises(UsageError, match="is not a cross-encoder: BertModel"):
            call()


def test_a_cross_encoder_without_its_output(cross_encoder, run):
    from safetensors.numpy import load_file, save_file

    file = cross_encoder() / "model.safetensors"
    kept = {name: weight for name, weight in load_file(file).items() if not name.startswith("classifier.")}
    save_file(kept, file, {"format": "pt"})
    with pytest.raises(UsageError, match=r"lacks 2 weights of BertForSequenceClassification, classifier\.bias first"):
        run(file.parent)


def test_a_cross_encoder_as_it_is_saved_today(cross_encoder, run, tmp_path):
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(cross_encoder()), device="cpu").save_pretrained(str(tmp_path / "saved"))
    assert np.array_equal(run(tmp_path / "saved")[0].scores, run(cross_encoder())[0].scores)


def test_more_than_one_score(cross_encoder, run):
    with pytest.raises(UsageError, match="gives 2 scores for a pair"):
        run(cross_encoder(2))


def test_what_it_uses():
    method = Rerank(first="bm25", model="a/b")
    assert (method.uses(), method.describe()) == (("bm25",), "bm25, b")
    with pytest.raises(UsageError, match="cannot be a part of itself"):
        Rerank(first="rerank").require()
