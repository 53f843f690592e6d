"""What the order of sessions and of versions is worth: the ablation of section 8.4 of "Bringing Order to Practical Validation of
Database Isolation Levels" (Clark et al.), with Isolde in the place of King Cobra.

Ten thousand transactions of twenty clients, three mixes, at serializable; with and without session order; and with 0, 10, 50, 90
and 100 % of the versions in the order that the database tells. The study does not say how many keys there are and how long
transactions are; here they are Cobra's usual ones, 10,000 keys and eight operations. Its checker sees one log a client and no
times, so the histories are written like that: the order of the file and the times would be a hint of the very order that is
taken away. ``--times`` leaves them in.

    python benchmarks/ordering.py [--keys N] [--operations N] [--limit SECONDS] [--times]
"""

from __future__ import annotations

import argparse

from cell import history, markdown, measure

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
FAMILIES = {"serializable": "serializable", "snapshot-isolation": "snapshot isolation"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--operations", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=float, default=10.0, metavar="SECONDS", help="for one cell")
    parser.add_argument("--times", action="store_true", help="leave times and the order of completion in the files")
    arguments = parser.parse_args()
    size = {name: getattr(arguments, name) for name in ("transactions", "keys", "operations")} | {"sessions": 20}
    print(markdown([*HEAD], []))
    for made_at, family in FAMILIES.items():
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


if __name__ == "__main__":
    main()
