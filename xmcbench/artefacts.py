"""What several cells share - a token store, TF-IDF features, a pre-training - made once and kept by content hash."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

from xmcbench.atomic import atomic_folder
from xmcbench.canonical import sha256_json
from xmcbench.errors import DataError
from xmcbench.lock import exclusive


class Artefacts:
    """A store of artefact folders under one root.

    ``reused_s`` adds up what the artefacts taken from the store had cost when they were made, in seconds, so that no
    method looks cheap because another paid. Without a root the store is a temporary one that goes with the object.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.reused_s = 0.0
        if root is None:
            root = Path(tempfile.mkdtemp(prefix="xmcbench-"))
            weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
        self.root = root

    def get(self, kind: str, identity: Mapping[str, object], build: Callable[[Path], None]) -> Path:
        """The folder of the artefact with this kind and identity; ``build`` fills it where it is not there yet.

        ``identity`` is everything the content depends on (JSON values): the digest of the texts, the parameters, the
        version of the code. Two processes that want the same artefact make it once: the second waits for the first.
        Raises StorageError when it cannot be written, DataError when the one that is there is damaged.
        """
        folder = self.root / kind / sha256_json(dict(identity))[:32]
        if not (folder / "cost.json").exists():
            with exclusive(folder.with_suffix(".lock")):
                if not (folder / "cost.json").exists():
                    self._make(folder, identity, build)
                    return folder
        try:
            self.reused_s += float(json.loads((folder / "cost.json").read_text())["wall_s"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"the artefact {folder} is damaged: {error}", "delete the folder: it is made anew"
            ) from error
        return folder

    def _make(self, folder: Path, identity: Mapping[str, object], build: Callable[[Path], None]) -> None:
        already_reused, start = self.reused_s, time.perf_counter()
        with atomic_folder(folder) as temporary:
            build(temporary)
            # An artefact made from another one cost what both cost.
            wall_s = time.perf_counter() - start + self.reused_s - already_reused
            cost = {"wall_s": wall_s, "identity": dict(identity)}
            (temporary / "cost.json").write_text(json.dumps(cost, indent=1, sort_keys=True) + "\n")
