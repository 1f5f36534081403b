"""Import, export, build, fetch, verify, describe or synthesize datasets."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from xmcbench.command import flags, report, request
from xmcbench.errors import UsageError
from xmcbench.output.layout import fill


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``xmcbench data``."""
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def verb(name: str, act: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=about)
        made.set_defaults(act=act)
        return made

    build = verb("build", _build, "build a dataset from its source")
    build.add_argument("name", metavar="NAME", help="a dataset whose card says how it is built")
    flags.path(build, "out", "DIR", "default: the folder of the dataset's card")
    _add_force(build)
    flags.path(build, "indices", "DIR", "the source files (default: fetched)")
    other = "accept a release other than the card's (with --out)"
    flags.switch(build, "other-release", other)
    releases = "for datasets of two: 13, trixie, testing@2026-11-21 (with --out)"
    for side in ("train", "test"):
        build.add_argument(f"--{side}", metavar="RELEASE", help=f"Debian release of the {side} data, {releases}")

    fetch = verb("fetch", _fetch, "download a dataset, or the files that it is built from")
    fetch.add_argument("name", metavar="NAME", help="a dataset whose card says where it is")
    flags.path(fetch, "out", "DIR", "default: the first dataset folder that is writable")
    flags.switch(fetch, "offline", "open no connection: only say whether the data are there")
    _add_force(fetch)

    _add_place(verb("verify", _verify, "check a dataset's files against its card"))

    info = verb("info", _info, "show a dataset's card and statistics")
    _add_place(info)
    _add_tokenizer(info)
    flags.add(info, "json")

    convert = verb("import", _import, "read a dataset in any layout of `ls layouts`, write it as XC raw")
    _add_place(convert)
    _add_out(convert)

    audit = verb("audit", _audit, "look for repeated and empty texts, and test texts in the training set")
    _add_place(audit)
    _add_tokenizer(audit)
    flags.switch(audit, "no-near", "exact repetitions only: much faster on large datasets")
    flags.path(audit, "html", "FILE", "also write a page")
    flags.switch(audit, "force", "replace FILE")
    flags.add(audit, "json")

    export = verb("export", _export, "write a dataset in another format")
    _add_place(export)
    _add_out(export)
    layouts = "a layout that can be written; `ls layouts` lists them"
    export.add_argument("--format", required=True, metavar="FORMAT", help=layouts)
    flags.switch(
        export,
        "flatten",
        "make every run of white space a space, for formats with one text per line, and leave out what labels "
        "carry besides their titles, for formats that cannot hold it",
    )

    synth = verb("synth", _synth, "make a dataset of any size, for tests of scale")
    synth.add_argument("name", metavar="FOLDER", type=Path, help="new or empty folder to write")
    instances = "training instances; a quarter as many are test instances"
    synth.add_argument("--instances", type=int, metavar="N", help=instances)
    synth.add_argument("--labels", type=int, metavar="L", help="number of labels")
    synth.add_argument("--like", metavar="NAME", help="the counts of this dataset, instead of --instances and --labels")
    synth.add_argument(
        "--scale", type=float, default=1.0, metavar="S", help="with --like: factor of all counts (default: 1)"
    )
    synth.add_argument("--words", type=int, default=100, metavar="N", help="with --like: words per text (default: 100)")
    synth.add_argument("--seed", type=int, default=0, help="default: 0")
    _add_force(synth)


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME|PLACE", help="a name, or a folder, file or hf:OWNER/NAME")
    flags.add(parser, "columns")


def _add_tokenizer(parser: argparse.ArgumentParser) -> None:
    about = "folder of a model, or its tokenizer.json; also warn of scripts whose letters the tokenizer does not know"
    flags.path(parser, "tokenizer", "FOLDER", about)


def _add_out(parser: argparse.ArgumentParser) -> None:
    flags.path(parser, "out", "DIR", "new or empty folder to write", required=True)
    _add_force(parser)


def _add_force(parser: argparse.ArgumentParser) -> None:
    others = "write into a folder that has other files; files with the same names are replaced"
    flags.switch(parser, "force", others)


def run(arguments: argparse.Namespace) -> int:
    """Do the action; ``verify`` returns 1 if it finds a problem."""
    return arguments.act(arguments)  # type: ignore[no-any-return]


def _build(arguments: argparse.Namespace) -> int:
    from xmcbench.data import build
    from xmcbench.display import find_screen

    with find_screen() as screen:
        built = build(
            arguments.name,
            arguments.out,
            arguments.indices,
            arguments.other_release,
            arguments.force,
            arguments.train,
            arguments.test,
            lambda line: screen.show([line]),
        )
    found = {
        True: "; files identical to those on the card",
        False: "; files differ from those on the card",
        None: "; the card had no checksums to compare with",
    }
    print(f"{built.card.name} in {built.folder}: {_counts(built.card.counts.items())}{found[built.as_pinned]}")
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    from xmcbench.data import fetch
    from xmcbench.data.catalog import find
    from xmcbench.data.fetching import fetch_data
    from xmcbench.display import find_screen

    card = find(arguments.name).card
    if card is None or not card.build:
        paths = fetch_data(arguments.name, arguments.out, offline=arguments.offline, force=arguments.force)
    elif arguments.offline or arguments.out is None:
        raise UsageError(
            f"{card.name} is not downloaded but built from other files",
            f"fetch these with --out DIR and without --offline, or run `xmcbench data build {card.slug}`",
        )
    else:
        with find_screen() as screen:
            paths = fetch(arguments.name, arguments.out, lambda line: screen.show([line]))
    for path in paths:
        print(path)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from xmcbench.data.catalog import locate, reference_to_whole
    from xmcbench.data.verification import examine

    reference = request.reference(arguments.name, arguments.columns)
    verified, card = examine(reference), locate(reference_to_whole(reference)).card
    bare = card is not None and not (card.files or card.counts or card.derive)
    good = "can be read; no card has counts or checksums to check it against" if bare else "matches its card"
    print("\n".join([*verified.facts, *(verified.findings or [f"{arguments.name} {good}"])]))
    return 1 if verified.findings else 0


def _info(arguments: argparse.Namespace) -> int:
    from xmcbench.data import load_dataset, statistics
    from xmcbench.data.audit import audit

    dataset = load_dataset(request.reference(arguments.name, arguments.columns))
    facts = statistics(dataset)
    card = dataset.card
    about: dict[str, object] = {"name": dataset.name}
    about |= {name: getattr(card, name) for name in ("description", "source", "release", "date", "license", "checked")}
    about["sha256"] = dataset.digest
    warnings = audit(dataset, near=False, tokenizer=arguments.tokenizer).warnings()
    if arguments.json:
        print(json.dumps({**about, "notes": dataset.notes, "statistics": facts, "warnings": warnings}, indent=1))
        return 0
    report.show_notes([dataset])
    for name, value in {**about, **facts}.items():
        shown = f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
        if shown:
            print(fill(f"{name.replace('_', ' '):42}{shown}", hang=42))
    for line in warnings:
        print(fill(f"warning: {line}"))
    return 0


def _audit(arguments: argparse.Namespace) -> int:
    from xmcbench.data import load_dataset
    from xmcbench.data.audit import audit
    from xmcbench.output import document
    from xmcbench.storage.atomic import write_text

    if arguments.html:
        report.check_new(arguments.html, arguments.force)
    dataset = load_dataset(request.reference(arguments.name, arguments.columns))
    found = audit(dataset, near=not arguments.no_near, tokenizer=arguments.tokenizer)
    warnings = found.warnings()
    if arguments.json:
        print(json.dumps(found.as_json(), indent=1))
    else:
        print("\n".join(warnings) if warnings else f"{found.dataset}: nothing was found")
    if arguments.html:
        body = [document.heading(1, f"{found.dataset}: audit"), document.items(warnings or ["Nothing was found."])]
        for finding in (finding for finding in found.findings if finding.examples):
            heading = document.heading(2, f"{finding.side.capitalize()} that {finding.kind}")
            body += [heading, document.items(finding.examples)]
        shares = [(name.capitalize(), f"{100 * share:.2f}%") for name, share in found.scripts.items()]
        body.append(document.heading(2, "Scripts"))
        body.append(document.table("Letters of a sample of the texts, by script.", ("Script", "share"), shares))
        page = document.page(f"{found.dataset}: audit", [document.section("main", body)], mark="xmcbench data audit")
        write_text(arguments.html, page)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from xmcbench.data.exchange import convert

    dataset = convert(request.reference(arguments.name, arguments.columns), arguments.out, arguments.force)
    report.show_notes([dataset])
    print(f"{dataset.name} in {arguments.out}: {_counts(dataset.counts().items())}")
    return 0


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    """Return the counts of a dataset in one line: ``48 train, 1 test, 10 labels, 90 train pairs, 1 test pair``."""
    named = ((name.replace("_", " "), number) for name, number in counts)
    return ", ".join(f"{number:,} {name.removesuffix('s') if number == 1 else name}" for name, number in named)


def _export(arguments: argparse.Namespace) -> int:
    from xmcbench.data import export, load_dataset

    dataset = load_dataset(request.reference(arguments.name, arguments.columns))
    report.show_notes([dataset])
    for path in export(dataset, arguments.out, arguments.format, arguments.force, arguments.flatten):
        print(path)
    return 0


def _synth(arguments: argparse.Namespace) -> int:
    from xmcbench.data import imitate, synthesize

    sizes = (arguments.instances, arguments.labels)
    if (arguments.like is None) == (None in sizes) or (arguments.like is not None and sizes != (None, None)):
        raise UsageError("data synth takes --like, or --instances and --labels", "for example --like lf-amazon-131k")
    if arguments.like is not None:
        imitate(arguments.name, arguments.like, arguments.scale, arguments.words, arguments.seed, force=arguments.force)
    else:
        request.check_unused(arguments, "{} can only be used with --like", "leave it out", scale=1.0, words=100)
        synthesize(arguments.name, *sizes, arguments.seed, arguments.force)
    print(f"xmcbench run --dataset {shlex.quote(str(arguments.name))} --setting ez --methods tfidf")
    return 0
