"""Hybrids of real methods: what they take from their parts, and when they are stale."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, Part, Unavailable, UsageError
from xmcbench.errors import UnknownName
from xmcbench.methods.bm25 import BM25
from xmcbench.methods.hybrid import Hybrid, fusion
from xmcbench.methods.hybrid.fusion import fuse
from xmcbench.methods.tfidf import Tfidf
from xmcbench.plugins.registry import Registry
from xmcbench.records import Cell
from xmcbench.runner.rows import Request, resolve
from xmcbench.setting import Setting
from xmcbench.storage import source
from xmcbench.storage.syntax import Syntax


@pytest.fixture
def hybrid(corpus, tmp_path):
    def run(pairs=None, seed=0, k=5, **values):
        raw_X, raw_Y, _, new = corpus
        method = Hybrid(**{"parts": "tfidf,bm25", **values})
        method.seed, method.artifacts = seed, Artifacts(tmp_path / "store")
        method.fit(raw_X, raw_Y, pairs)
        found = method.predict(new, k=k)
        found.check(len(new), k, len(raw_Y))
        return found, method

    return run


@pytest.fixture
def artifacts(tmp_path):
    return Artifacts(tmp_path / "alone")


@pytest.mark.parametrize("batch", [2, 16_384])
def test_it_is_the_fusion_of_its_parts(hybrid, fitted, corpus, monkeypatch, batch):
    monkeypatch.setattr("xmcbench.methods.hybrid._BATCH", batch)
    raw_X, raw_Y, _, new = corpus
    assert len(new) > 2
    parts = [fitted(kind, raw_X, raw_Y).predict(new, 5) for kind in (Tfidf, BM25)]
    for values, weights, how in (
        ({}, [0.5, 0.5], "deviation"),
        ({"weights": "2,1", "normalization": "rank"}, [2, 1], "rank"),
    ):
        found, method = hybrid(**values)
        expected = fuse(parts, weights, how, len(raw_Y), 5)
        assert found.indices.tobytes() == expected.indices.tobytes()
        assert found.scores.tobytes() == expected.scores.tobytes()
        assert method.notes["weights"] == dict(zip(("tfidf", "bm25"), weights, strict=True))


def test_parts_are_asked_for_more_labels_than_are_predicted(hybrid, fitted, corpus):
    raw_X, raw_Y, _, new = corpus
    found, _ = hybrid(k=1, depth=9)
    parts = [fitted(kind, raw_X, raw_Y).predict(new, 9) for kind in (Tfidf, BM25)]
    expected = fuse(parts, [0.5, 0.5], "deviation", len(raw_Y), 1)
    assert found.scores.tobytes() == expected.scores.tobytes()
    assert found.scores.tobytes() != hybrid(k=1)[0].scores.tobytes()


def test_a_ranking_is_made_once(hybrid, monkeypatch):
    first, _ = hybrid()
    monkeypatch.setattr(Tfidf, "fit", lambda *_: pytest.fail("trained a second time"))
    again, method = hybrid(normalization="range")
    assert method.artifacts.reused_s > 0
    assert first.indices.tolist() != again.indices.tolist() or first.scores.tolist() != again.scores.tolist()


def test_parts_are_trained_on_the_pairs(hybrid, corpus):
    swapped = csr_matrix(corpus[2][:, ::-1])
    without, _ = hybrid(parts="tfidf,xr-linear")
    found, method = hybrid(swapped, parts="tfidf,xr-linear")
    assert not np.array_equal(found.scores, without.scores)
    assert method.notes["parts"]["xr-linear"]["training_instances"] == 60


def test_weights_are_fitted_on_what_the_parts_have_not_seen(hybrid, corpus, monkeypatch):
    pairs, seen = corpus[2], []
    original = Part.ranking
    monkeypatch.setattr(
        Part, "ranking", lambda self, texts, known, k: seen.append((texts, known)) or original(self, texts, known, k)
    )
    _, method = hybrid(pairs, parts="tfidf,xr-linear", weights="fit")
    assert method.notes["weights_fitted_on"] == 12
    assert sum(method.notes["weights"].values()) == pytest.approx(1)
    rows = fusion.hold_out_rows(pairs, 0.2, 1000, 0)
    rest = [row for row in range(60) if row not in rows]
    for (trained, labels, asked), known in seen[:2]:
        assert [list(trained), list(asked)] == [[corpus[0][row] for row in chosen] for chosen in (rest, rows)]
        assert labels is corpus[1]
        assert (known != pairs[rest]).nnz == 0
    assert all(known is pairs and texts[0] is corpus[0] for texts, known in seen[2:])
    assert (pairs.data == 1).all()
    _, equal = hybrid(parts="tfidf,xr-linear", weights="fit")
    assert equal.notes["weights"] == {"tfidf": 0.5, "xr-linear": 0.5}


@pytest.mark.parametrize("spec", ["knn", "xr-linear"])
def test_held_out_rankings_are_those_of_a_cell_of_the_rest(hybrid, corpus, artifacts, monkeypatch, spec):
    """Their own texts are not among the neighbors."""
    pairs, made, original = corpus[2], [], Part.ranking

    def watch(self, texts, known, k):
        made.append((self, original(self, texts, known, k)[0]))
        return original(self, texts, known, k)

    monkeypatch.setattr(Part, "ranking", watch)
    hybrid(pairs, parts=f"tfidf,{spec}", weights="fit")
    part, found = made[1]
    rows = fusion.hold_out_rows(pairs, 0.2, 1000, 0)
    rest = np.setdiff1d(np.arange(60), rows)
    alone = part.kind(**part.values)
    alone.seed, alone.artifacts = 0, artifacts
    alone.fit(corpus[0].take(rest), corpus[1], pairs[rest])
    expected = alone.predict(corpus[0].take(rows), found.k)
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.scores.tobytes() == expected.scores.tobytes()


def test_weights_are_fitted_on_scores_as_they_are_predicted(hybrid, corpus, monkeypatch):
    """Of as many labels, and normalized over the whole ranking, before labels without a known pair are left out."""
    given, original = [], fusion.only_seen
    monkeypatch.setattr(fusion, "only_seen", lambda ranking, *rest: given.append(ranking) or original(ranking, *rest))
    hybrid(corpus[2], parts="tfidf,bm25", weights="fit", normalization="range")
    assert len(given) == 2
    for ranking in given:
        assert ranking.k == 100
        some = ranking.indices[:, 1] >= 0
        assert (ranking.scores[some, 0] == 1).all()
        assert ranking.scores[ranking.indices >= 0].min() >= 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"parts": "tfidf"}, "must name at least two different methods"),
        ({"parts": "tfidf,tfidf"}, "must name at least two different methods"),
        ({"parts": "sentbert,sentbert:quick"}, "must name at least two different methods"),
        ({"weights": "1"}, "is not a number for each of the 2 parts"),
        ({"weights": "1,x"}, "is not a number for each of the 2 parts"),
        ({"weights": "0,0"}, "is not a number for each of the 2 parts"),
        ({"weights": "1,nan"}, "is not a number for each of the 2 parts"),
        ({"parts": "tfidf,hybrid"}, "cannot be a part of itself"),
    ],
)
def test_what_makes_no_sense(values, message):
    with pytest.raises(UsageError, match=message):
        Hybrid(**{"parts": "tfidf,bm25", **values}).require()


def test_parts_that_are_not_there():
    for parts in ("tfidf,bm26", "tfidf:none,bm25"):
        with pytest.raises(UnknownName):
            Hybrid(parts=parts).require()


@pytest.mark.parametrize("methods", ["hybrid", "tfidf,hybrid"])
def test_a_hybrid_of_a_hybrid_is_an_error_of_the_request(inside, tiny, methods):
    words = ("--methods", methods, "--set", "hybrid.parts=tfidf,hybrid:small", "--dry-run")
    ended = inside("run", "--dataset", tiny, "--setting", "ez", *words)
    assert ended.returncode == 2
    assert ended.stderr == "xmcbench: error: hybrid cannot be a part of itself (name other methods)\n"


def test_a_hybrid_is_stale_when_a_part_has_changed(monkeypatch, tmp_path):
    def digests():
        registry = Registry()  # it looks at each file once
        return [registry.resolve("hybrid", {"parts": parts}).source_sha256 for parts in ("tfidf,bm25", "glove,bm25")]

    before, parsed = digests(), source.syntax_of
    assert before[0] != before[1] != Registry().resolve("bm25", {}).source_sha256

    def with_a_change(file, name):
        found = parsed(file, name)
        return found if file.name != "ngrams.py" else Syntax("changed", found.imports)

    monkeypatch.setattr(source, "syntax_of", with_a_change)
    after = digests()
    assert (after[0] == before[0], after[1] == before[1]) == (False, True)
    cell = Cell(
        dataset="D",
        dataset_sha256="d",
        setting=Setting.of("ez"),
        subset_sha256=None,
        method="hybrid",
        parameters={"parts": "tfidf,bm25"},
        seed=0,
    )
    through = Registry().staleness(tmp_path).through(cell)
    assert [name for name, _ in through] == ["hybrid", "tfidf", "bm25"]
    # A part that grows a parameter makes no earlier result stale.
    assert not {"analyzer", "label_text"} & {name for _, values in through for name in values}


def test_a_hybrid_is_stale_when_a_preset_of_a_part_has_other_values(monkeypatch):
    """The part is named in the cell, and its values are not."""

    def digests():
        registry = Registry()
        given = [{"parts": parts} for parts in ("tfidf:pecos,bm25", "tfidf:sklearn,bm25")]
        return [registry.resolve("hybrid", values).source_sha256 for values in given]

    before, own = digests(), Registry().resolve("tfidf", {}).source_sha256
    pecos = {**Tfidf.presets["pecos"], "max_df": 0.9}
    monkeypatch.setattr(Tfidf, "presets", {**Tfidf.presets, "pecos": pecos})
    after = digests()
    assert (after[0] == before[0], after[1] == before[1]) == (False, True)
    assert Registry().resolve("tfidf", {}).source_sha256 == own


def test_whether_a_hybrid_is_stale_does_not_depend_on_what_is_installed(monkeypatch):
    values = {"parts": "tfidf,sentbert:quick"}
    here = Registry().resolve("hybrid", values).source_sha256
    monkeypatch.setattr("xmcbench.plugins.description._is_installed", lambda package: False)
    with pytest.raises(Unavailable):
        Registry()["tfidf"].usable()
    assert Registry().resolve("hybrid", values).source_sha256 == here


def test_a_cell_after_those_of_its_parts_costs_the_fusion(inside, tiny, tmp_path):
    """And one before them leaves the same figures."""
    words = ("run", "--dataset", tiny, "--setting", "full", "--json")

    def record(runs):
        ended = inside(*words, "--methods", "hybrid", "--set", "hybrid.parts=tfidf,xr-linear", "--runs", runs)
        assert ended.returncode == 0, ended.stderr
        (found,) = json.loads(ended.stdout)["records"]
        assert found["problem"] is None
        return found

    assert inside(*words, "--methods", "tfidf,xr-linear", "--runs", "after").returncode == 0
    after, alone = record("after"), record("alone")
    assert [name.split("/")[-2] for name in after["artifacts"]] == ["ranking", "ranking"]
    assert {name.split("/")[-2] for name in alone["artifacts"]} == {"ranking", "tfidf"}
    assert after["metrics"] == alone["metrics"]
    records = [json.loads(path.read_text()) for path in (tmp_path / "after" / "records").rglob("*.json")]
    parts = [stored["measured"] for stored in records if stored["cell"]["method"] != "hybrid"]
    # A ranking costs what was reused for it, too: one part takes the features of the other.
    spent = sum(sum(cost["wall_s"].values()) + cost["reused_s"] for cost in parts)
    assert 0 < after["measured"]["reused_s"] <= spent
    assert after["method"]["variant"] == "quick, tfidf + xr-linear"
    assert "libpecos" in after["environment"]["packages"]


def test_a_part_that_needs_pairs_stops_a_zero_shot_plan(tiny):
    """Known before anything runs."""
    request = Request(str(tiny), Setting.of("ez"), ("hybrid",), None, {"hybrid": {"parts": "tfidf,pefa"}})
    with pytest.raises(UsageError, match="pefa needs pairs, and the zero-shot setting has none"):
        resolve([request], Registry())


def test_a_folder_does_not_stand_for_a_word(tmp_path, monkeypatch):
    for name in ("fit", "bm25", "tfidf,bm25"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert Hybrid(weights="fit", parts="tfidf,bm25").inputs() == {}
