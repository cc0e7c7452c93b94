"""`fasthop check`: all that is wrong or odd in a graph, its figures, and --fix for what has one right repair."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = subparsers.add_parser(
        "check",
        help="show every fault of a graph, and its statistics",
        description="Shows every fault of a graph with the value and its place, and its statistics. Exits with 0 where "
        "nothing keeps it from being used, and with 2 where something does.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        help="a graph's name, a .pt or .npz file, an edge list in .csv, .tsv or .parquet, or a folder with edges.csv "
        "and nodes.csv",
    )
    parser.add_argument("--nodes", metavar="FILE", help="the table of the nodes that an edge list goes with")
    parser.add_argument(
        "--undirected", action="store_true", help="add the reverse of each edge that lacks one"
    )
    parser.add_argument(
        "--root", metavar="DIR", help="folder that holds the data sets' files, tried before a download"
    )
    parser.add_argument(
        "--split",
        metavar="N",
        help="which column of masks with several splits; or random, per-class:20/500/1000, or percentages such as "
        "60/20/20, to draw one",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of a drawn split (default: 0)")
    parser.add_argument(
        "--unsafe-pickle",
        action="store_true",
        help="load a whole pickled object from a .pt file; it may run any code, so only a file you trust",
    )
    parser.add_argument(
        "--fix",
        type=Path,
        metavar="OUT.pt",
        help="write the graph to a new file with every fault repaired that has one right repair",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language (default: en)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code."""
    from fasthop.graph.diagnosis import check_target, diagnose
    from fasthop.report.diagnosis_text import diagnosis_text

    if args.fix is not None:
        check_target(args.fix)  # before the graph is read, which may take minutes
    diagnosis = diagnose(
        args.data,
        nodes=args.nodes,
        undirected=args.undirected,
        root=args.root,
        split=args.split,
        seed=args.seed,
        unsafe=args.unsafe_pickle,
    )
    left: tuple[str, ...] = ()
    is_fixed = False
    if args.fix is not None and diagnosis.graph is not None:
        left, is_fixed = diagnosis.save(args.fix), True
    if args.json:
        tree = diagnosis.to_tree() | {"fixed": str(args.fix) if is_fixed else None, "left_out": list(left)}
        sys.stdout.write(json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        sys.stdout.write(diagnosis_text(diagnosis, args.lang))
        if args.fix is not None:
            sys.stdout.write(_fixed_text(diagnosis, args.fix, left, args.lang))
    return 2 if diagnosis.errors and not is_fixed else 0


def _fixed_text(diagnosis: Any, path: Path, left: tuple[str, ...], lang: str) -> str:
    zh = lang == "zh"
    if diagnosis.graph is None:
        count = sum(not found.is_mendable for found in diagnosis.errors)
        if zh:
            return f"未写出 {path}：{count} 个错误没有唯一正确的修复。\n"
        return f"{path} was not written: {count} of the errors have no single right repair.\n"
    lines = [found.sentence[lang] for found in diagnosis.mendable]
    if zh:
        lines = [
            f"已写出 {path}，" + ("修复了：" if lines else "没有需要修复之处。"),
            *(f"  {one}" for one in lines),
        ]
    else:
        head = f"Wrote {path}, " + ("with this repaired:" if lines else "with nothing to repair.")
        lines = [head, *(f"  {one}" for one in lines)]
    if left:
        lines.append(
            f"未保留：{'、'.join(left)}。" if zh else f"Left out, being no tensors: {', '.join(left)}."
        )
    return "\n".join(lines) + "\n"
