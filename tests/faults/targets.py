"""Targets of the attacks: for each kind of input how a good one is made, how it is changed, and how it is read.

A trial returns ``same`` where the data that are read are those that were written, ``valid`` where a format without a
digest holds other data that can be used, or a sentence that says what went wrong. An XmcbenchError is the one error
that a reader may raise.
"""

import gzip
import io
import json
import os
import shutil
import xml.etree.ElementTree as ET
from contextlib import redirect_stderr
from pathlib import Path

import msgspec
import mutators
import numpy as np
from kind import Kind, OneFile, all_of
from layouts import Layouts

from xmcbench import Artifacts, TopK, load_arrays, save_arrays
from xmcbench.api import evaluate
from xmcbench.command.main import parser
from xmcbench.command.settings_file import expand
from xmcbench.data import known_datasets, load_dataset
from xmcbench.data.card import read_card, write_card
from xmcbench.data.xc_matrix import read_filter, read_matrix
from xmcbench.errors import XmcbenchError
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.pages import pages, read_remarks
from xmcbench.leaderboard.published import read_source
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store, as_json, read_record
from xmcbench.runner.job import Outcome
from xmcbench.runner.scorer import Scorer
from xmcbench.setting import Setting, draw
from xmcbench.storage.arrays import pairs_digest, read_pairs
from xmcbench.storage.canonical import sha256_json
from xmcbench.submissions import examine

#: Where published figures of the project lie.
PUBLISHED = Path(__file__).parents[2] / "leaderboards" / "published"


def render(records, published=()):
    """Render records in every format, and hold the drawings against XML."""
    made = pages(records, published)
    for layout in ("markdown", "latex", "csv", "json"):
        for name, content in files(made, layout, published).items():
            content.encode()
            if name.endswith(".svg"):
                ET.fromstring(content)
            assert not {"\x1b", "\u202e", "\0"} & {*content}, f"{name} holds a control character"
            if name.endswith(".md"):
                assert "<img" not in content.replace("\\<img", ""), f"{name} holds a tag"
                assert "](javascript" not in content.replace("\\](javascript", ""), f"{name} holds a link"


def reseal(values):
    """JSON values of a record with the checksums of somebody who knows how."""
    content = {name: value for name, value in values.items() if name != "sha256"}
    if isinstance(content.get("cell"), dict):
        content["key"] = sha256_json(content["cell"])
    return json.dumps({**content, "sha256": sha256_json(content)})


class Predictions(OneFile):
    full, sample = 2500, 20
    mutate = staticmethod(mutators.wild_npz)

    def setup(self):
        self.path = self.folder / "predictions.npz"
        self.dataset = load_dataset(self.base / "tiny")
        scores = np.random.RandomState(0).rand(len(self.dataset.test), len(self.dataset.labels))
        TopK.from_scores(scores, 8).save(self.path)
        self.before = evaluate(self.path, self.dataset).values

    def read(self):
        values = evaluate(self.path, self.dataset).values
        assert all(0 <= value <= 1 for value in values.values()), values
        return "same" if values == self.before else "valid"


class Records(OneFile):
    full, sample = 2500, 20

    def setup(self):
        source = Store(self.base / "runs")
        record = source.records()[0]
        self.store = Store(self.folder / "runs")
        self.store.write(record)
        self.before, self.path = record, self.store.record_path(record.cell)

    def read(self):
        found = self.store.records()
        if self.store.left_out:
            (error,) = self.store.left_out.values()
            raise error
        return "same" if found == [self.before] else "other data, silently"


class ResealedRecords(Kind):
    full, sample = 2000, 10

    def setup(self):
        self.records = Store(self.base / "runs").records()
        self.path = self.folder / "record.json"

    def trial(self, chance):
        values = mutators.wild_value(as_json(chance.choice(self.records)), chance)
        try:
            text = reseal(values)
            self.path.write_text(text)
        except (UnicodeEncodeError, ValueError):  # such a value is no JSON
            return "valid"
        record = read_record(self.path)
        if record.ok:
            render([record])
        return "valid"


class Board(Kind):
    """Resealed mutants that are sent to a board, with a good one among them."""

    full, sample, each = 1000, 25, 25

    def setup(self):
        runs = Store(self.base / "runs")
        self.record = next(record for record in runs.records() if record.cell.setting.kind == "ez")
        self.predictions = runs.predictions_path(self.record.cell).read_bytes()
        self.registry, self.scorer = Registry(), Scorer()

    def close(self):
        self.scorer.__exit__(None, None, None)

    def trial(self, chance):
        root = self.folder / "sent"
        shutil.rmtree(root, ignore_errors=True)
        sent = Store(root)
        for seed in range(self.each + 1):
            values = as_json(self.record)
            cell = msgspec.structs.replace(self.record.cell, seed=seed)
            values["cell"]["seed"], values["key"] = seed, cell.key
            values["predictions"]["file"] = sent.relative(sent.predictions_path(cell))
            values["ranks"]["file"] = sent.relative(sent.ranks_path(cell))
            if seed:
                values = mutators.wild_value(values, chance)
            try:
                text = reseal(values)
            except (ValueError, TypeError):  # such a value is no JSON
                text = json.dumps(values)
            for path, content in (
                (sent.predictions_path(cell), self.predictions),
                (sent.record_path(cell), text.encode("utf-8", "replace")),
            ):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        good = sent.record_path(msgspec.structs.replace(self.record.cell, seed=0))
        datasets = {"tiny": str(self.base / "tiny")}
        board = Store(self.folder / "board")
        found = examine([root], board, self.registry, self.scorer, datasets)
        render([result.record for result in found.accepted])
        paths = {result.path for result in found.accepted}
        if good not in paths:
            return f"the good one was refused: {found.refused.get(good)}"
        if board.root.exists():
            return "the board was changed"
        outcomes = ["valid"] * (len(paths) - 1) + ["refused"] * len(found.refused)
        outcomes += ["no result"] * len(found.unfinished)
        return outcomes if len(outcomes) == self.each else f"{len(outcomes)} outcomes of {self.each} mutants"


class Ranks(OneFile):
    full, sample = 1500, 15
    mutate = staticmethod(mutators.wild_npz)

    def setup(self):
        shutil.copytree(self.base / "runs", self.folder / "runs")
        self.store = Store(self.folder / "runs")
        self.record = self.store.records()[0]
        self.path = self.store.ranks_path(self.record.cell)

    def read(self):
        self.store.ranks(self.record, self.store.truth(self.record))
        return "same"  # the digest is that of the record


class Truth(Ranks):
    full, sample = 1000, 10

    def setup(self):
        super().setup()
        self.path = self.store.truth_path(self.record.cell.dataset, self.record.ranks.truth_sha256)


class Published(Kind):
    full, sample = 1500, 12

    def setup(self):
        shutil.copytree(PUBLISHED, self.folder / "published")
        self.toml = sorted((self.folder / "published").glob("*.toml"))[0]
        self.files = [self.toml, *sorted((self.folder / "published").glob("*.csv"))]

    def trial(self, chance):
        path = chance.choice(self.files)
        good = path.read_bytes()
        try:
            path.write_bytes(mutators.wild_text(good, chance))
            render([], (read_source(self.toml),))
            return "valid"
        finally:
            path.write_bytes(good)


class Cards(OneFile):
    full, sample = 1500, 12

    def setup(self):
        shutil.copytree(self.base / "tiny", self.folder / "sets" / "tiny")
        self.path = self.folder / "sets" / "tiny" / "card.toml"
        shutil.copy(Path(__file__).parents[1] / "sample" / "card.toml", self.path)
        os.environ["XMCBENCH_DATASETS"] = str(self.folder / "sets")

    def read(self):
        assert len(known_datasets()) > 1  # never breaks a listing
        card = read_card(self.path)
        again = self.folder / "again.toml"
        write_card(again, card)
        return "valid" if read_card(again) == card else "a card that is written is not read back"


class DataFiles(Kind):
    """trn, tst and lbl of a dataset, read into an empty cache."""

    full, sample = 1500, 12

    def setup(self):
        shutil.copytree(self.base / "tiny", self.folder / "tiny")
        self.files = sorted((self.folder / "tiny").glob("*.json.gz"))
        os.environ["XMCBENCH_CACHE"] = str(self.folder / "cache")

    def trial(self, chance):
        path = chance.choice(self.files)
        good = path.read_bytes()
        try:
            path.write_bytes(mutators.wild_gzip(good, chance))
            all_of(load_dataset(self.folder / "tiny"))
            return "valid"
        finally:
            path.write_bytes(good)
            shutil.rmtree(self.folder / "cache", ignore_errors=True)


class Matrices(OneFile):
    full, sample = 1000, 10
    as_filter = False

    def setup(self):
        self.path = self.folder / "matrix.txt"
        self.path.write_text("3 8\n0:1 2:0.5\n\n5:3 7:1e-3\n")

    def mutate(self, data, chance):
        self.as_filter = chance.random() < 0.4
        return mutators.wild_text(b"0 1\n0 3\n2 7\n" if self.as_filter else data, chance)

    def read(self):
        made = read_filter(self.path, 3, 8) if self.as_filter else read_matrix(self.path)
        made.check_format(full_check=True)
        return "valid"


class Cache(Kind):
    full, sample = 1500, 15

    def setup(self):
        self.cache = self.folder / "cache"
        os.environ["XMCBENCH_CACHE"] = str(self.cache)
        self.before = all_of(load_dataset(self.base / "tiny"))
        shutil.copytree(self.cache, self.folder / "good")

    def trial(self, chance):
        kept = sorted(path for path in self.cache.rglob("*") if path.is_file() and path.suffix != ".lock")
        path = chance.choice(kept)
        content = path.read_bytes()
        by_suffix = {".npz": mutators.wild_npz, ".json": mutators.wild_text}
        path.write_bytes(by_suffix.get(path.suffix, mutators.damage)(content, chance))
        try:
            with redirect_stderr(io.StringIO()):
                found = all_of(load_dataset(self.base / "tiny"))
            return "same" if found == self.before else f"other data, silently, from {path.name}"
        finally:
            shutil.rmtree(self.cache)
            shutil.copytree(self.folder / "good", self.cache)


class ArtifactFolders(Kind):
    full, sample = 1000, 12

    def trial(self, chance):
        root = self.folder / "artifacts"
        folder = self._get(root)
        path = chance.choice(sorted(file for file in folder.rglob("*") if file.is_file()))
        by_suffix = {".npz": mutators.wild_npz, ".json": mutators.wild_text}
        path.write_bytes(by_suffix.get(path.suffix, mutators.damage)(path.read_bytes(), chance))
        try:
            with redirect_stderr(io.StringIO()):
                folder = self._get(root)
            with np.load(folder / "a.npz") as arrays:
                same = arrays["x"].tolist() == list(range(50))
            same = same and (folder / "b.bin").read_bytes() == b"x" * 3000
            return "same" if same else f"other data, silently, from {path.name}"
        finally:
            shutil.rmtree(root)

    def _get(self, root):
        def build(folder):
            np.savez(folder / "a.npz", x=np.arange(50))
            (folder / "b.bin").write_bytes(b"x" * 3000)
            (folder / "notes.json").write_text('{"steps": 3}')

        return Artifacts(root).get("features", {"of": "x"}, build)


class Subsets(Kind):
    full, sample = 500, 8

    def setup(self):
        pattern = load_dataset(self.base / "tiny").train_pattern()
        self.subset = draw(pattern, Setting.of("fs", 0.5), 0)
        self.store = Store(self.folder / "runs")
        with self.store.subset("tiny", self.subset) as path:
            self.good = path.read_bytes()

    def trial(self, chance):
        with self.store.subset("tiny", self.subset) as path:
            path.write_bytes(mutators.wild_npz(self.good, chance))
        with self.store.subset("tiny", self.subset) as path:
            pairs = read_pairs(path, self.subset.pairs.shape[1])
        same = pairs_digest(pairs.indptr, pairs.indices) == self.subset.digest
        return "same" if same else "other pairs, silently"


def wild_safetensors(data, chance):
    """The bytes of a safetensors file with its header, or its bytes, changed."""
    if chance.random() < 0.5:
        return mutators.damage(data, chance)
    length = int.from_bytes(data[:8], "little")
    header = mutators.wild_text(data[8 : 8 + length], chance)
    said = chance.choice((len(header),) * 8 + (0, 2**40, 2**63))
    return said.to_bytes(8, "little") + header + data[8 + length :]


class Tensors(OneFile):
    full, sample = 500, 8
    mutate = staticmethod(wild_safetensors)

    def setup(self):
        self.path = self.folder / "arrays.safetensors"
        save_arrays(self.path, {"a": np.arange(60.0).reshape(5, 12), "b": np.arange(7)})

    def read(self):
        load_arrays(self.path)
        return "valid"


class Checkpoints(OneFile):
    full, sample = 700, 8
    mutate = staticmethod(wild_safetensors)

    def setup(self):
        import torch

        from xmcbench.methods.encoder import checkpoints

        torch.manual_seed(0)
        self.checkpoints, self.torch = checkpoints, torch
        network, optimizer = self._fresh()
        network(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        state = checkpoints.Checkpoint(3, [[1, 0.5]], [0.25], {"order": np.arange(9)})
        checkpoints.save(self.folder, state, network, optimizer, {"plan": "x"})
        self.path = next(self.folder.glob("*.safetensors"))
        self.before = self._state()

    def _fresh(self):
        network = self.torch.nn.Linear(4, 3)
        return network, self.torch.optim.Adam(network.parameters())

    def _state(self):
        network, optimizer = self._fresh()
        found = self.checkpoints.restore(self.folder, network, optimizer, {"plan": "x"})
        if found is None:
            return None
        weights = [weight.tolist() for weight in network.state_dict().values()]
        steps = [[value.tolist() for value in state.values()] for state in optimizer.state.values()]
        return [found.step, found.curve, found.sums, found.task["order"].tolist(), weights, steps]

    def read(self):
        return "same" if self._state() == self.before else "other weights, silently"


class Outcomes(OneFile):
    full, sample = 500, 8

    def setup(self):
        self.path = self.folder / "outcome.json"
        notes = {"loss": {"losses": ["a"], "curve": [[1, 0.5], [2, 0.25]]}}
        Outcome(status="ok", notes=notes, wall_s={"fit": 1.5}, packages={"numpy": "2"}).write(self.path)

    def read(self):
        Outcome.read(self.path)
        return "valid"


class Settings(OneFile):
    full, sample = 500, 8

    def setup(self):
        self.path = self.folder / "settings.toml"
        self.path.write_text(
            'dataset = "tiny"\nsetting = "fs"\nseed = [0, 1]\n[set.tfidf]\nmax_df = 0.5\n'
            "[[grid]]\nratio = 0.01\n[[grid]]\nratio = [0.05, 0.1]\nset = {tfidf = {max_df = [0.5, 1.0]}}\n"
        )

    def read(self):
        for words in expand(["run", "--config", str(self.path)], parser().below("run").flags):
            assert all(isinstance(word, str) for word in words)
        return "valid"


class Remarks(OneFile):
    full, sample = 300, 8

    def setup(self):
        self.path = self.folder / "tiny.md"
        self.path.write_text("A remark with *markup*.\n")

    def read(self):
        read_remarks(self.folder)
        return "valid"


class WordVectors(OneFile):
    full, sample = 500, 8

    def setup(self):
        self.path = self.folder / "vectors.gz"
        rows = (f"word{row} " + " ".join(f"{row / (column + 1):.3f}" for column in range(5)) for row in range(20))
        self.path.write_bytes(gzip.compress("\n".join(rows).encode()))

    def mutate(self, data, chance):
        return mutators.wild_gzip(data, chance, b"word ")

    def read(self):
        from xmcbench.methods.words import vector_file

        words, vectors = vector_file.read(self.path, 1000)
        assert len(words) == len(vectors)
        assert np.isfinite(vectors).all()
        return "valid"


class Names(Kind):
    """Names of dataset folders."""

    full, sample = 300, 8

    def trial(self, chance):
        letters = "ab-Z9 .\t\n\\\u00a0\u200d\u202e\U0001f469\x1b\x7fé\u0430|<>`*"
        name = "".join(chance.choice(letters) for _ in range(chance.choice((1, 3, 8, 60, 125))))
        folder = self.folder / name
        try:
            folder.mkdir()
        except OSError:
            return "valid"  # the file system does not have such names either
        try:
            for file in (self.base / "tiny").glob("*.json.gz"):
                os.link(file, folder / file.name)
            dataset = load_dataset(folder)
            cell = msgspec.structs.replace(Store(self.base / "runs").records()[0].cell, dataset=dataset.name)
            cell.__post_init__()  # what may be loaded can be recorded
            return "valid"
        finally:
            shutil.rmtree(folder)


KINDS = {
    kind.__name__: kind
    for kind in (
        Predictions,
        Records,
        ResealedRecords,
        Board,
        Ranks,
        Truth,
        Published,
        Cards,
        DataFiles,
        Layouts,
        Matrices,
        Cache,
        ArtifactFolders,
        Subsets,
        Tensors,
        Checkpoints,
        Outcomes,
        Settings,
        Remarks,
        WordVectors,
        Names,
    )
}
ERROR = XmcbenchError
