"""Build, fetch, verify, describe, export or synthesize datasets."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``xmcbench data``."""
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    build = verbs.add_parser("build", help="build a dataset from its source")
    build.add_argument("name")
    build.add_argument("--out", type=Path, metavar="DIR", help="default: the folder of the dataset's card")
    _add_force(build)
    build.add_argument("--indices", type=Path, metavar="DIR", help="the source files (default: fetched)")
    build.add_argument(
        "--other-release", action="store_true", help="accept a release other than the card's (with --out)"
    )

    fetch = verbs.add_parser("fetch", help="download the files that a dataset is built from")
    fetch.add_argument("name")
    fetch.add_argument("--out", type=Path, required=True, metavar="DIR")

    verify = verbs.add_parser("verify", help="check a dataset's files against its card")
    verify.add_argument("name", metavar="NAME|FOLDER")

    info = verbs.add_parser("info", help="show a dataset's card and statistics")
    info.add_argument("name", metavar="NAME|FOLDER")
    info.add_argument("--json", action="store_true", help="one JSON document on stdout")

    audit = verbs.add_parser("audit", help="look for repeated and empty texts, and test texts in the training set")
    audit.add_argument("name", metavar="NAME|FOLDER")
    audit.add_argument("--no-near", action="store_true", help="exact repetitions only: much faster on large datasets")
    audit.add_argument("--html", type=Path, metavar="FILE", help="also write a page")
    audit.add_argument("--force", action="store_true", help="replace FILE")
    audit.add_argument("--json", action="store_true", help="one JSON document on stdout")

    export = verbs.add_parser("export", help="write a dataset in another format")
    export.add_argument("name", metavar="NAME|FOLDER")
    export.add_argument("--out", type=Path, required=True, metavar="DIR")
    _add_force(export)
    export.add_argument("--format", required=True, choices=("xc", "pecos", "maclr", "zestxml"))

    synth = verbs.add_parser("synth", help="make a dataset of any size, for tests of scale")
    synth.add_argument("name", metavar="FOLDER", type=Path)
    synth.add_argument("--instances", type=int, required=True, metavar="N")
    synth.add_argument("--labels", type=int, required=True, metavar="L")
    synth.add_argument("--seed", type=int, default=0, help="default: 0")
    _add_force(synth)


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force",
        action="store_true",
        help="write beside other files; those of the same names are replaced",
    )


def run(arguments: argparse.Namespace) -> int:
    """Do the action; ``verify`` returns 1 if it finds a problem."""
    actions = {
        "build": _build,
        "fetch": _fetch,
        "verify": _verify,
        "info": _info,
        "audit": _audit,
        "export": _export,
        "synth": _synth,
    }
    return actions[arguments.action](arguments)


def _build(arguments: argparse.Namespace) -> int:
    from xmcbench.data import build

    built = build(arguments.name, arguments.out, arguments.indices, arguments.other_release, arguments.force)
    counts = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in built.card.counts.items())
    same = "files identical to those on the card" if built.as_pinned else "files differ from those on the card"
    print(f"{built.card.name} in {built.folder}: {counts}; {same}")
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    from xmcbench.data import fetch

    for path in fetch(arguments.name, arguments.out):
        print(path)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from xmcbench.data import verify
    from xmcbench.data.catalogue import locate

    findings, card = verify(arguments.name), locate(arguments.name).card
    bare = card is not None and not (card.files or card.counts or card.derive)
    good = "can be read; it has no card to check counts and checksums against" if bare else "matches its card"
    print("\n".join(findings) if findings else f"{arguments.name} {good}")
    return 1 if findings else 0


def _info(arguments: argparse.Namespace) -> int:
    from xmcbench.data import load_dataset, statistics
    from xmcbench.data.audit import audit

    dataset = load_dataset(arguments.name)
    facts = statistics(dataset)
    card = dataset.card
    about: dict[str, object] = {
        "name": dataset.name,
        "description": card.description,
        "source": card.source,
        "release": card.release,
        "license": card.license,
        "sha256": dataset.digest,
    }
    warnings = audit(dataset, near=False).warnings()
    if arguments.json:
        print(json.dumps({**about, "statistics": facts, "warnings": warnings}, indent=1))
        return 0
    for name, value in {**about, **facts}.items():
        shown = f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
        if shown:
            print(f"{name.replace('_', ' '):42}{shown}")
    for line in warnings:
        print(f"warning: {line}")
    return 0


def _audit(arguments: argparse.Namespace) -> int:
    from xmcbench import document
    from xmcbench.command import report
    from xmcbench.data import load_dataset
    from xmcbench.data.audit import audit
    from xmcbench.storage.atomic import write_text

    if arguments.html:
        report.check_new(arguments.html, arguments.force)
    found = audit(load_dataset(arguments.name), near=not arguments.no_near)
    warnings = found.warnings()
    if arguments.json:
        print(json.dumps(found.as_json(), indent=1))
    else:
        print("\n".join(warnings) if warnings else f"{found.dataset}: nothing was found")
    if arguments.html:
        body = [document.heading(1, f"{found.dataset}: audit"), document.items(warnings or ["Nothing was found."])]
        for each in found.findings:
            if each.examples:
                body += [
                    document.heading(2, f"{each.side.capitalize()} that {each.kind}"),
                    document.items(each.examples),
                ]
        shares = [(name.capitalize(), f"{100 * share:.2f}%") for name, share in found.scripts.items()]
        body.append(document.heading(2, "Scripts"))
        body.append(document.table("Letters of a sample of the texts, by script.", ("Script", "share"), shares))
        page = document.page(f"{found.dataset}: audit", [document.section("main", body)], mark="xmcbench data audit")
        write_text(arguments.html, page)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from xmcbench.data import export, load_dataset

    for path in export(load_dataset(arguments.name), arguments.out, arguments.format, arguments.force):
        print(path)
    return 0


def _synth(arguments: argparse.Namespace) -> int:
    from xmcbench.data import synthesize

    synthesize(arguments.name, arguments.instances, arguments.labels, arguments.seed, arguments.force)
    print(f"xmcbench run --dataset {arguments.name} --setting ez --methods tfidf")
    return 0
