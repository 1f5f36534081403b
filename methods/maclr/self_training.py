"""Self-training: an encoder learns from what it and other sources take for the labels of a document."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Interval

from xmcbench import Doc, MethodError, Texts, TopK, UsageError
from xmcbench.methods.declarations import AboveZero, Natural, NonNegative, Positive, Share, Steps
from xmcbench.methods.encoder.pretrained_encoder import ContextEncoder

if TYPE_CHECKING:
    from xmcbench.methods.encoder.contrastive import ContrastiveTask
    from xmcbench.methods.encoder.tower import Tower
    from xmcbench.methods.maclr.pseudo_pairs import OwnTitles, PseudoPairs

#: Documents that are looked at per document that Stage II can visit, where many are expected to get no pseudo label.
_CANDIDATES = 4
#: Labels with a document's own title that a ranking is made longer by, at most: thousands may share one text.
_OWN_TITLES = 100


class SelfTraining(ContextEncoder):
    """Stage II of MACLR (section 4.3): pseudo labels of several sources, and what the encoder learns from them. The
    paper takes three labels from the encoder and three from TF-IDF. The other parameters help against wrong ones."""

    packages: ClassVar = {**ContextEncoder.packages, "numba": "numba", "bm25s": "bm25s", "Stemmer": "PyStemmer"}

    pseudo_encoder: Annotated[bool, Doc("component of Stage II: pseudo labels of the encoder", "MACLR, 4.3")] = True
    pseudo_tfidf: Annotated[bool, Doc("component of Stage II: pseudo labels of TF-IDF", "MACLR, 4.3")] = True
    pseudo_bm25: Annotated[bool, Doc("use BM25 as another source of pseudo labels; the paper does not")] = False
    pseudo_steps: Annotated[Steps, Doc("number of steps of Stage II", "MACLR, section 5.1")] = 100_000
    pseudo_mix: Annotated[
        Literal["each", "sum", "agreement"],
        Doc(
            "each: every source names labels of its own; sum: one ranking by the sum of the sources' scores, each "
            "divided by the mean of its best ones; agreement: labels among the first pseudo_depth of every source, "
            "ranked by that sum",
            "MACLR, section 4.3",
        ),
    ] = "each"
    pseudo_top: Annotated[
        Positive,
        Doc(
            "number of pseudo labels of a document, from each source or from the mix, at most 100 from the mix; "
            "pseudo_loss = soft takes soft_labels instead",
            "MACLR, section 5.1",
        ),
    ] = 3
    pseudo_depth: Annotated[int, Interval(ge=1, le=100), Doc("ranks of a source that agreement looks at")] = 3
    pseudo_twice: Annotated[
        bool, Doc("whether a pair that two sources give counts twice, as in MACLR's code; the paper does not say")
    ] = False
    min_pseudo_score: Annotated[
        float | None, Doc("lowest score of a pseudo label, by the encoder, or by the mix if any", "MACLR's code: 36")
    ] = None
    min_pseudo_margin: Annotated[
        NonNegative, Doc("minimum lead of a document's pseudo labels over its next label; others are not used")
    ] = 0.0
    pseudo_own_title: Annotated[
        bool, Doc("use a label that repeats the document's title, which may be the document itself, as the paper does")
    ] = True
    pseudo_loss: Annotated[
        Literal["equation-3", "equation-2", "soft"],
        Doc(
            "on batches of pairs: equation 3, the pairs of the same document are positives, as in the paper; "
            "equation 2, each pair alone, as in MACLR's code; soft: the encoder is to score the first labels of a "
            "document as the sources do (listwise distillation)",
            "MACLR, section 4.3",
        ),
    ] = "equation-3"
    soft_labels: Annotated[int, Interval(ge=2, le=100), Doc("length of a list of labels with pseudo_loss = soft")] = 4
    soft_sharpness: Annotated[AboveZero, Doc("divisor of the sources' scores in the targets of pseudo_loss = soft")] = (
        0.1
    )
    hard_negatives: Annotated[
        Natural, Doc("negatives drawn per pseudo pair from the ranks hard_first to hard_last")
    ] = 0
    hard_first: Annotated[Positive, Doc("first rank of hard negatives")] = 5
    hard_last: Annotated[Positive, Doc("last rank of hard negatives")] = 50
    negative_margin: Annotated[
        float | None, Ge(0), Doc("labels this close to the pseudo label's score are no negatives; none: all are")
    ] = None
    pseudo_replay: Annotated[
        NonNegative, Doc("weight of the loss of ICT beside that of Stage II, on as many documents a step; 0: none")
    ] = 0.0
    pseudo_rounds: Annotated[
        Positive, Doc("parts of Stage II; pseudo labels are computed again before each", "MACLR, section 4.3")
    ] = 1
    pseudo_share: Annotated[Share, Doc("share of the weights after Stage II when averaged with those of Stage I")] = 1.0
    pseudo_recipe: Annotated[
        Literal["pecos", "sklearn"], Doc("whose TF-IDF gives pseudo labels; PECOS's in MACLR's code", "pecos#206")
    ] = "pecos"

    def require(self) -> None:
        """Raise UsageError too where hard negatives have too few ranks, and for a parameter that has no effect."""
        super().require()
        if self.hard_negatives > max(0, self.hard_last - self.hard_first + 1):
            raise UsageError(
                f"maclr.hard_negatives = {self.hard_negatives}, but the ranks from hard_first = {self.hard_first} to "
                f"hard_last = {self.hard_last} hold fewer labels",
                "raise hard_last",
            )
        if self.pseudo_twice and self.pseudo_mix != "each":
            raise self._no_effect("pseudo_twice", f"pseudo_mix = {self.pseudo_mix}")
        if self.min_pseudo_margin and self.pseudo_mix != "each":
            ranked = self.pseudo_depth if self.pseudo_mix == "agreement" else self._width
            if self.pseudo_top >= ranked:
                where = f"pseudo_top = {self.pseudo_top} of a mix of at most {ranked} labels"
                raise self._no_effect("min_pseudo_margin", where)
        if self.pseudo_loss == "soft":
            self._check_soft()

    def _check_soft(self) -> None:
        """Raise UsageError for a parameter that has no part in soft targets, which are the sum's first labels."""
        without = {
            "pseudo_mix": self.pseudo_mix == "agreement",
            "pseudo_twice": self.pseudo_twice,
            "min_pseudo_score": self.min_pseudo_score is not None,
            "min_pseudo_margin": self.min_pseudo_margin > 0,
            "hard_negatives": self.hard_negatives > 0,
            "negative_margin": self.negative_margin is not None,
        }
        for name in (name for name, given in without.items() if given):
            raise self._no_effect(name, "pseudo_loss = soft")

    def _no_effect(self, name: str, where: str) -> UsageError:
        """The error for a parameter that has no part in what another one chooses; its hint has the value that fits."""
        fits = {"pseudo_mix": "sum", "pseudo_twice": "false", "min_pseudo_margin": "0", "hard_negatives": "0"}
        return UsageError(
            f"maclr.{name} = {getattr(self, name)} has no effect with {where}", f"set {name}={fits.get(name, 'none')}"
        )

    @property
    def _second(self) -> bool:
        """Presence of a Stage II."""
        return (self.pseudo_encoder or self.pseudo_tfidf or self.pseudo_bm25) and self.pseudo_steps > 0

    def _second_stage(
        self, tower: Tower, raw_X: Texts, raw_Y: Texts, own_titles: OwnTitles, held_out: np.ndarray
    ) -> None:
        """Stage II in rounds, each on the pseudo pairs of the encoder as it then is."""
        from xmcbench.methods.maclr.second_stage import draw_visited

        before = tower.weights() if self.pseudo_share < 1 else {}
        choosy = self.pseudo_mix == "agreement" or self.min_pseudo_margin > 0
        most = self.pseudo_steps * self.batch * (_CANDIDATES if choosy else 1)
        rows = draw_visited(len(raw_X), held_out, most, self.seed)
        read = raw_X if len(rows) == len(raw_X) else raw_X.take(rows)
        rounds = min(self.pseudo_rounds, self.pseudo_steps)
        for number in range(rounds):
            steps = self.pseudo_steps * (number + 1) // rounds - self.pseudo_steps * number // rounds
            name = "stage II" if rounds == 1 else f"stage II, round {number + 1}"
            seed = self._seed_of_round(number)
            task, identity = self._pseudo_task(tower, raw_X, read, raw_Y, own_titles.of_rows(rows), seed)
            replayed = self.batch, self.pseudo_replay, seed, held_out
            task, identity = self._replay(tower, raw_X, task, identity, *replayed)
            plan = replace(self._plan(steps, self.learning_rate), seed=seed)
            self._train_on(tower, name, task, plan, identity)
        if before:
            tower.blend(before, self.pseudo_share)

    def _seed_of_round(self, number: int) -> int:
        """The seed of a round, counted from 0; the first one has that of the method. Every round counts its steps from
        0: with one seed all would visit the same documents, with the same dropout."""
        if number == 0:
            return self.seed
        return int(np.random.default_rng([self.seed, 12, number]).integers(2**31))

    def _pseudo_task(
        self, tower: Tower, raw_X: Texts, read: Texts, raw_Y: Texts, own_titles: OwnTitles, seed: int
    ) -> tuple[ContrastiveTask, dict[str, object]]:
        """Pseudo labels of the texts that are read, and what is learned from them. seed: of their order. Raises
        MethodError without any."""
        from xmcbench.methods.maclr.second_stage import HardNegatives, SecondStage, SoftTargets

        rankings = self._rankings(tower, raw_X, read, raw_Y, own_titles)
        pairs = self._pseudo_pairs(rankings, len(read), len(raw_Y))
        instances = tower.instance_tokens(read, self.instance_length)
        labels = tower.label_tokens(raw_Y, self.label_length)
        common = self.batch, tower.temperature, seed
        identity: dict[str, object] = {"kind": "maclr stage II", "loss": self.pseudo_loss}
        identity |= {"instances": read.digest, "labels": raw_Y.digest}
        if self.pseudo_loss == "soft":
            length = {"length": self.soft_labels, "sharpness": self.soft_sharpness}
            ranking = self._together(rankings, len(raw_Y))
            lists = SoftTargets(instances, labels, ranking, *common, **length)  # type: ignore[arg-type]
            if not len(lists):
                fewer = "lower maclr.soft_labels" if self.soft_labels > 2 else "maclr.pseudo_loss=equation-3 needs one"
                raise MethodError(f"no document has {self.soft_labels} pseudo labels", fewer)
            first = ranking.indices[:, : self.soft_labels], ranking.scores[:, : self.soft_labels]
            return lists, {**identity, **length, "ranking": _digest(*first)}
        if not len(pairs):
            raise MethodError(
                "no document has a pseudo label",
                "a larger pseudo_depth, pseudo_mix=sum or pseudo_own_title=true lets more through"
                if self.pseudo_mix == "agreement"
                else "a lower min_pseudo_score or min_pseudo_margin, or pseudo_own_title=true, lets more through",
            )
        hard = None
        if self.hard_negatives:
            ranking = self._together(rankings, len(raw_Y))
            hard = HardNegatives(ranking, len(raw_Y), self.hard_negatives, self.hard_first, self.hard_last)
            identity |= {
                "hard": [self.hard_negatives, self.hard_first, self.hard_last],
                "ranking": _digest(ranking.indices[:, : self.hard_last]),
            }
        choices = {"negatives": self.negatives, "own_titles": own_titles, "hard": hard, "margin": self.negative_margin}
        task = SecondStage(instances, labels, pairs, *common, loss=self.pseudo_loss, **choices)  # type: ignore[arg-type]
        identity |= {"pairs": _digest(pairs.rows, pairs.columns), "negatives": self.negatives}
        return task, {**identity, "margin": self.negative_margin}

    def _rankings(
        self, tower: Tower, raw_X: Texts, read: Texts, raw_Y: Texts, own_titles: OwnTitles
    ) -> dict[str, TopK]:
        """Return each source's labels of the texts that are read, by the source's name."""
        from xmcbench.methods.maclr.pseudo_pairs import DEPTH, bm25_ranking, tfidf_ranking, without_own_titles

        deep = self.pseudo_mix != "each" or self.hard_negatives or self.pseudo_loss == "soft"
        depth = max(DEPTH if deep else 0, self.hard_last if self.hard_negatives else 0, self.pseudo_top + 1)
        wanted = min(depth, len(raw_Y))
        depth = min(depth + (0 if self.pseudo_own_title else min(own_titles.most, _OWN_TITLES)), len(raw_Y))
        rankings: dict[str, TopK] = {}
        if self.pseudo_encoder:
            rankings["encoder"] = self._nearest_by_encoder(tower, read, raw_Y, depth)
        if self.pseudo_tfidf:
            rankings["tfidf"] = tfidf_ranking(tower.artifacts, raw_X, read, raw_Y, depth, self.pseudo_recipe)
        if self.pseudo_bm25:
            rankings["bm25"] = bm25_ranking(tower.artifacts, read, raw_Y, depth)
        if not self.pseudo_own_title:
            # Cut to one length again: a row with room left would count as a source that ended early.
            rankings = {name: without_own_titles(ranking, own_titles, wanted) for name, ranking in rankings.items()}
        return rankings

    @property
    def _width(self) -> int:
        """Labels that the sum of all sources ranks at most."""
        from xmcbench.methods.maclr.pseudo_pairs import DEPTH

        return max(DEPTH, self.hard_last if self.hard_negatives else 0)

    def _together(self, rankings: Mapping[str, TopK], labels: int) -> TopK:
        """One ranking by the sum of all sources: that of ``sum``, of hard negatives and of soft targets."""
        from xmcbench.methods.maclr.pseudo_pairs import sum_scores

        return sum_scores([*rankings.values()], labels, width=self._width)

    def _pseudo_pairs(self, rankings: Mapping[str, TopK], documents: int, labels: int) -> PseudoPairs:
        """The pseudo labels of each text that is read. documents, labels: how many texts and labels there are."""
        from xmcbench.methods.maclr.pseudo_pairs import choose_pairs, mix_pairs, sum_scores

        counts = {}
        if self.pseudo_mix == "each":
            sources = []
            for name, ranking in rankings.items():
                least = self.min_pseudo_score if name == "encoder" else None
                sources.append(choose_pairs(ranking, labels, self.pseudo_top, least, self.min_pseudo_margin))
                counts[name] = len(sources[-1])
            pairs = mix_pairs(sources, self.pseudo_twice)
        else:
            ranked = (
                sum_scores([*rankings.values()], labels, self.pseudo_depth)
                if self.pseudo_mix == "agreement"
                else self._together(rankings, labels)
            )
            pairs = choose_pairs(ranked, labels, self.pseudo_top, self.min_pseudo_score, self.min_pseudo_margin)
        self.notes["pseudo pairs"] = {"documents": documents, **counts, "mixed": len(pairs)}
        return pairs

    def _nearest_by_encoder(self, tower: Tower, raw_X: Texts, raw_Y: Texts, depth: int) -> TopK:
        from xmcbench.methods.maclr.pseudo_pairs import share_ranking

        instances = tower.instance_tokens(raw_X, self.instance_length)
        labels = tower.label_tokens(raw_Y, self.label_length)
        identity = {
            "by": "encoder",
            "weights": tower.encoder.digest(),
            "tokens": [instances.folder.name, labels.folder.name],
            "computed": tower.computed,
            "depth": depth,
            "seed": self.seed,
        }

        def search() -> Iterator[TopK]:
            with tower.embeddings(instances) as queries, tower.embeddings(labels) as items:
                yield from tower.nearest(queries, items, depth)

        return share_ranking(tower.artifacts, identity, search, len(raw_X), depth)


def _digest(*arrays: np.ndarray) -> str:
    """SHA-256 (hex) of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
