"""A kind of input that is attacked, and what can be read of a dataset."""

import mutators

from xmcbench.storage.arrays import pairs_digest
from xmcbench.storage.canonical import sha256_json


class Kind:
    """A kind of input. ``full`` and ``sample``: how many mutants of it. ``each``: mutants a trial."""

    full, sample, each = 500, 8, 1

    def __init__(self, base, folder):
        """base: holds the dataset ``tiny`` and the runs folder ``runs``. folder: an empty one."""
        self.base, self.folder = base, folder
        self.setup()

    def setup(self):
        """Make the good input."""

    def check(self):
        """Read the good input. An error here is one of the tests."""

    def trial(self, chance):
        """Change it, read it, and put it back: an outcome, or several."""
        raise NotImplementedError

    def close(self):
        """End what was started."""


class OneFile(Kind):
    """An input of one file at ``path``."""

    mutate = staticmethod(mutators.wild_text)

    def check(self):
        assert self.read() in ("same", "valid")

    def trial(self, chance):
        good = self.path.read_bytes()
        try:
            self.path.write_bytes(self.mutate(good, chance))
            return self.read()
        finally:
            self.path.write_bytes(good)

    def read(self):
        """Read the input: an outcome."""
        raise NotImplementedError


def all_of(dataset):
    """Return a digest of all that can be read of a dataset."""
    texts = [[*part.uids, *part] for part in (dataset.train, dataset.test, dataset.labels)]
    pairs = [dataset.train_pairs(), dataset.test_pairs(), *(dataset.filter(name) for name in dataset.filters)]
    digests = [pairs_digest(matrix.indptr, matrix.indices) for matrix in pairs if matrix is not None]
    return sha256_json([dataset.digest, dataset.counts(), texts, digests])
