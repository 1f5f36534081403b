import shutil
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from xmcbench.data import export, known_datasets, load_dataset
from xmcbench.data.catalog import locate
from xmcbench.data.exchange import convert, formats
from xmcbench.data.sources import Holding, Place, Source, finding
from xmcbench.data.sources.finding import layouts, place_of, reference_to, source_at, without
from xmcbench.data.sources.hugging_face import HuggingFace
from xmcbench.errors import DataError, Unavailable, UnknownName, UsageError
from xmcbench.storage.locations import cache_root


@pytest.fixture
def installed(monkeypatch):
    """Let entry points be installed: name -> what it names."""

    def install(**points):
        found = [EntryPoint(name, value, finding.GROUP) for name, value in points.items()]
        monkeypatch.setattr(finding, "entry_points", lambda group: found)
        layouts.cache_clear()

    yield install
    layouts.cache_clear()


def test_a_reference_is_a_path_and_options(tmp_path):
    assert place_of("a/b.csv?text=x y&labels=t").options == {"text": "x y", "labels": "t"}
    assert reference_to("a.csv", {}) == "a.csv"
    assert place_of(reference_to("a.csv?text=a", {"text": "x&y", "uid": "=?"})).options == {"text": "x&y", "uid": "=?"}
    assert without("a.csv?text=a&documents=b", "documents") == "a.csv?text=a"
    assert without("a.csv?documents=b", "documents") == "a.csv"
    odd = tmp_path / "what?text=1"
    odd.mkdir()
    assert place_of(str(odd)) == Place(str(odd), odd)
    assert place_of(odd).path == odd
    with pytest.raises(UsageError, match="is not a list of options"):
        place_of("a.csv?text")
    with pytest.raises(UsageError, match=r"the option separator in 'text=a&separator=' is empty"):
        place_of("a.csv?text=a&separator=")
    with pytest.raises(UsageError, match=r"an option in 'text=a&text=b' is given twice"):
        place_of("a.csv?text=a&text=b")
    for separator in (",", " ", "+", ";", "%", "/", "a+b c"):
        for reference in (
            f"a.csv?separator={separator.replace('%', '%25')}",
            reference_to("a.csv", {"separator": separator}),
        ):
            assert place_of(reference).options == {"separator": separator}
            assert place_of(without(f"{reference}&documents=b", "documents")).options == {"separator": separator}
    assert place_of("a.csv?separator=%20").options == {"separator": " "}


def test_what_no_layout_recognizes_is_said(tmp_path):
    (tmp_path / "set").mkdir()
    with pytest.raises(DataError, match="has no layout that xmcbench knows"):
        load_dataset(tmp_path / "set")
    with pytest.raises(UnknownName, match="did you mean 'pecos'"):
        load_dataset(f"{tmp_path / 'set'}?layout=pecoss")
    with pytest.raises(DataError, match="has no output-items.txt"):
        load_dataset(f"{tmp_path / 'set'}?layout=pecos")
    with pytest.raises(UsageError, match="no folder at"):
        load_dataset("not/here")


def test_a_layout_of_a_package_is_used(installed, tmp_path, write_folder, monkeypatch):
    class Mine(Source):
        name, title = "mine", "a folder that contains the path of another"

        @classmethod
        def recognize(cls, place):
            return (place.path / "mine.txt").is_file()

        def find_parts(self) -> Holding:
            other = (self.place.path / "mine.txt").read_text()
            return source_at(Place(other, self.place.path / other)).find_parts()

    module = type(sys)("my_layouts")
    module.Mine, Mine.__module__, module.Broken = Mine, "my_layouts", 3
    module.__file__ = __file__
    monkeypatch.setitem(sys.modules, "my_layouts", module)
    installed(mine="my_layouts:Mine")
    names = list(layouts())
    assert names.index("mine") == names.index("tables") - 1
    folder = write_folder()
    (tmp_path / "mine.txt").write_text(folder.name)
    assert isinstance(source_at(place_of(tmp_path)), Mine)
    assert "mine" not in formats()
    installed(clash="xmcbench.data.sources.beir:Beir")
    with pytest.raises(UsageError, match="two layouts are called 'beir'"):
        layouts()


def test_a_broken_layout_is_left_out_with_a_word(installed, capsys, write_folder):
    installed(gone="no_such_package:Layout", wrong="xmcbench.data.card:Card")
    assert load_dataset(write_folder()).counts()["train"] == 3
    said = capsys.readouterr().err
    assert "the layout gone is left out: No module named" in said
    assert "the layout wrong is left out: it is not a class derived from" in said


def test_a_layout_that_raises_breaks_no_listing(installed, capsys, write_folder, monkeypatch):
    class Raising(Source):
        name, title = "raising", "a layout that raises"

        @classmethod
        def recognize(cls, place):
            raise ValueError("boom")

        def find_parts(self) -> Holding:
            raise NotImplementedError

    class Nameless(Raising):
        name = None

    module = type(sys)("my_layouts")
    module.Raising, module.Nameless, module.__file__ = Raising, Nameless, __file__
    Raising.__module__ = Nameless.__module__ = "my_layouts"
    monkeypatch.setitem(sys.modules, "my_layouts", module)
    installed(raising="my_layouts:Raising", nameless="my_layouts:Nameless")
    assert load_dataset(write_folder()).counts()["train"] == 3
    assert known_datasets()
    said = capsys.readouterr().err
    assert said.count("the layout raising is left out: boom") == 1
    assert "the layout nameless is left out: it has no name" in said


def test_a_folder_of_any_layout_is_found_by_name(write_folder, tmp_path, monkeypatch):
    export(load_dataset(write_folder()), tmp_path / "sets" / "Tea", "beir")
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    assert "tea-things" in {listing.slug for listing in known_datasets()}
    assert load_dataset("tea-things").digest == load_dataset(tmp_path / "Tea Things").digest
    (tmp_path / "sets" / "Tea" / "corpus.jsonl").write_text("")
    with pytest.raises(DataError, match=r"corpus\.jsonl does not match the card"):
        load_dataset("tea-things")


def test_sums_of_files_in_folders_are_compared_too(write_folder, tmp_path):
    export(load_dataset(write_folder()), tmp_path / "out", "beir")
    path = tmp_path / "out" / "qrels" / "test.tsv"
    path.write_text(path.read_text().replace("\t1\n", "\t2\n"))
    with pytest.raises(DataError, match=r"test\.tsv does not match the card"):
        load_dataset(tmp_path / "out")


def test_import_writes_the_raw_layout(write_folder, tmp_path):
    original = load_dataset(write_folder())
    export(original, tmp_path / "parquet", "parquet")
    convert(tmp_path / "parquet", tmp_path / "raw")
    assert {"trn.json.gz", "tst.json.gz", "lbl.json.gz"} <= {path.name for path in (tmp_path / "raw").iterdir()}
    assert load_dataset(tmp_path / "raw").digest == original.digest
    with pytest.raises(UsageError, match="already exists"):
        convert(tmp_path / "parquet", tmp_path / "raw")


@pytest.mark.slow
@pytest.mark.data
def test_the_annif_and_the_raw_layout_of_a_large_dataset_give_the_same_digest(real_data, tmp_path):
    raw = load_dataset(real_data("LF-YSO-25K"))
    export(raw, tmp_path / "annif", "annif")
    assert load_dataset(tmp_path / "annif").digest == raw.digest


def test_a_partial_snapshot_of_the_hub_is_downloaded_to_its_end(write_folder, tmp_path, monkeypatch):
    """The hub's client gives the folder of a snapshot whichever of its files are there."""
    snapshot, asked = tmp_path / "snapshot", []
    export(load_dataset(write_folder()), snapshot, "parquet")

    def download(name, local_files_only=False, **_):
        asked.append(local_files_only)
        return str(snapshot)

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    blobs = tmp_path / "hub" / "datasets--somebody--tea-set" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "5c1e.incomplete").touch()
    assert load_dataset("hf:somebody/tea-set").counts()["train"]
    assert asked
    assert not any(asked)

    def refuse(name, **_):
        raise OSError("no connection")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(Unavailable, match="is not complete in the cache of the hub, and cannot be downloaded: no conn"):
        load_dataset("hf:somebody/tea-set")


def test_one_file_of_a_dataset_of_the_hub_is_not_the_dataset(write_folder, tmp_path, monkeypatch):
    """Somebody fetched its test file: the hub is asked for the rest, and what is there is taken where it cannot be."""
    snapshot, asked = tmp_path / "snapshot", []
    export(load_dataset(write_folder()), snapshot, "parquet")
    part = tmp_path / "part"
    part.mkdir()
    shutil.copy(snapshot / "test.parquet", part / "test.parquet")

    def download(name, cache_dir, local_files_only=False, **_):
        asked.append((local_files_only, Path(cache_dir)))
        if not local_files_only and refused:
            raise OSError("no connection")
        return str(part if local_files_only else snapshot)

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    (tmp_path / "hub" / "datasets--somebody--tea-set").mkdir(parents=True)
    refused = False
    assert load_dataset("hf:somebody/tea-set").digest == load_dataset(snapshot).digest
    # A dataset of the hub lies in the cache of xmcbench, not beside models that a cell reads.
    assert {*asked} == {(True, tmp_path / "hub"), (False, cache_root() / "hub")}
    refused = True
    notes = load_dataset("hf:somebody/tea-set").found
    assert [note for note in notes if note.startswith("there is one set of instances")]


def test_a_configuration_of_the_hub_is_that_folder_and_no_other(write_folder, tmp_path, monkeypatch):
    snapshot = tmp_path / "snapshot"
    export(load_dataset(write_folder()), snapshot / "black", "parquet")
    (snapshot / "train.csv").write_text("text,labels\nanother one,x\n")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **options: str(snapshot))
    assert load_dataset("hf:somebody/tea-set?config=black").digest == load_dataset(snapshot / "black").digest
    with pytest.raises(DataError, match=r"tea-set, blck, has no train or test file .*name one of its .*config=black"):
        load_dataset("hf:somebody/tea-set?config=blck")


def test_an_id_of_the_hub_is_taken_from_its_cache(write_folder, tmp_path, monkeypatch):
    """Of a bare id only the cache is looked at, so that a misspelled path opens no connection."""
    snapshot = tmp_path / "snapshot"
    export(load_dataset(write_folder()), snapshot, "parquet")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **options: str(snapshot))
    dataset = load_dataset("hf:somebody/tea-set")
    assert (dataset.name, dataset.digest) == ("tea-set", load_dataset(snapshot).digest)
    (snapshot / "test.csv").write_text("text\nanother one\n")
    both = load_dataset("hf:somebody/tea-set")
    assert [*both.test] == ["another one"]
    assert both.notes[0] == "test.parquet is not used: test.csv is read"
    (snapshot / "test.csv").unlink()
    (snapshot / "validation.csv").write_text("text\nanother one\n")
    assert load_dataset("hf:somebody/tea-set").notes[0] == "the validation set is not used: validation.csv"
    (snapshot / "test.parquet").rename(snapshot / "test-00000-of-00002.parquet")
    with pytest.raises(DataError, match="has 1 of 2 shards such as test-00000-of-00002.parquet"):
        load_dataset("hf:somebody/tea-set")
    (snapshot / "test-00000-of-00002.parquet").rename(snapshot / "test.parquet")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "hub" / "datasets--somebody--tea-set").mkdir(parents=True)
    assert load_dataset("somebody/tea-set").digest == dataset.digest
    assert not HuggingFace.recognize(place_of("somebody/else"))
    assert locate("hf:somebody/else").name == "else"
    monkeypatch.undo()
    with pytest.raises(Unavailable, match="somebody/tea-set is not in the cache of the hub"):
        load_dataset("hf:somebody/tea-set")
