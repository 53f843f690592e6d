"""What the order of sessions and of versions is worth: the ablation of section 8.4 of "Bringing Order to Practical Validation of
Database Isolation Levels" (Clark et al.), with Isolde in the place of King Cobra.

Ten thousand transactions of twenty clients, three mixes, at serializable; with and without session order; and with 0, 10, 50, 90
and 100 % of the versions in the order that the database tells. The study does not say how many keys there are and how long
transactions are; here they are Cobra's usual ones, 10,000 keys and eight operations. Its checker sees one log a client and no
times, so the histories are written like that: the order of the file and the times would be a hint of the very order that is
taken away. ``--times`` leaves them in.

Figures 13 and 14 of the study are drawn from what was made at serializable, with the study's limit of five minutes; the table
ends with its ratios beside ours.

    python benchmarks/ordering.py [--keys N] [--operations N] [--limit SECONDS] [--times] [--figures] [--svg FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from cell import history, markdown, measure
from plot import Curves, drawn_curves

MIXES = ("rmw", "read-write", "heavy-write")
SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
HEAD = (
    "made at",
    "workload",
    "session order",
    "version order",
    "seconds",
    "verdict",
    "method",
    "open pairs",
    "peak MB",
)
# Nothing to find, and perhaps something: which of the latter are serializable all the same is for the checker to say.
# What the study says of figure 13, as seconds of the first over seconds of the second; "over": the first exceeded five minutes.
RATIOS = (
    ("rmw", (False, 0.0), (True, 0.0), "2"),
    ("rmw", (False, 0.9), (True, 0.9), "1.16"),
    ("read-write", (False, 0.0), (False, 0.9), "over 20"),
    ("read-write", (False, 0.9), (True, 0.9), "1.92"),
    ("heavy-write", (False, 0.0), (False, 0.9), "over 8.8"),
    ("heavy-write", (False, 0.9), (True, 0.9), "3.36"),
)
FAMILIES = {"serializable": "serializable", "snapshot-isolation": "snapshot isolation"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--operations", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS", help="for one cell")
    parser.add_argument("--figures", action="store_true", help="only what the figures show, and draw them")
    parser.add_argument("--svg", type=Path, default=Path(__file__).resolve().parent / "ordering.svg")
    parser.add_argument("--times", action="store_true", help="leave times and the order of completion in the files")
    arguments = parser.parse_args()
    size = {name: getattr(arguments, name) for name in ("transactions", "keys", "operations")} | {"sessions": 20}
    print(markdown([*HEAD], []))
    drawn: dict[tuple[str, bool, float], float] = {}
    for made_at, family in list(FAMILIES.items())[: 1 if arguments.figures else None]:
        for mix in MIXES:
            for share in SHARES:
                name = "-".join(map(str, ["ordering", made_at, mix, share, *size.values(), arguments.times]))
                path = history(
                    name, per_client=not arguments.times, workload=mix, level=made_at, versions=share, **size
                )
                for session_order in (True, False):
                    cell = measure(
                        path, "ser", limit_s=arguments.limit, repeat=arguments.repeat, session_order=session_order
                    )
                    row = [family, mix, "yes" if session_order else "no", f"{share:.0%}", cell.time(arguments.limit)]
                    row += [cell.verdict(), cell.method(), cell.open_pairs(), cell.memory()]
                    print("| " + " | ".join(row) + " |", flush=True)
                    if made_at == "serializable":
                        drawn[mix, session_order, share] = cell.seconds
    if arguments.figures:
        arguments.svg.write_text(_figures(drawn), encoding="utf-8")
    print("\n" + markdown(["workload", "seconds of", "over those of", "here", "the study"], list(_ratios(drawn))))


def _told(session_order: bool, share: float) -> str:
    return f"{'with' if session_order else 'no'} session order, {share:.0%} of versions"


def _ratios(drawn: dict[tuple[str, bool, float], float]) -> Iterator[list[str]]:
    for mix, first, second, study in RATIOS:
        ratio = drawn[(mix, *first)] / drawn[(mix, *second)]
        yield [mix, _told(*first), _told(*second), f"{ratio:.2g}", study]


def _figures(drawn: dict[tuple[str, bool, float], float]) -> str:
    """Figure 13: each workload under four kinds of knowledge; figure 14: by the share of versions, without session order."""
    kinds = [(False, 0.0), (False, 0.9), (True, 0.0), (True, 0.9)]
    thirteen = {mix: [(float(place), drawn[(mix, *kind)]) for place, kind in enumerate(kinds)] for mix in MIXES}
    fourteen = {mix: [(share * 100, drawn[mix, False, share]) for share in SHARES] for mix in MIXES}
    across = "0: no order, 1: versions, 2: sessions, 3: both"
    return drawn_curves(
        [
            Curves("figure 13: what is told", across, "seconds", thirteen),
            Curves("figure 14: no session order", "% of versions told", "seconds", fourteen),
        ]
    )


if __name__ == "__main__":
    main()
