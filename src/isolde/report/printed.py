"""What ``--json`` printed, drawn for a terminal: all that such a document holds, which is less than a kept report does."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from isolde.findings import Verdict
from isolde.history.json_text import json_text
from isolde.report.terminal import COLOURS, WORDS
from isolde.visible import WIDTH, Paint, safe_lines, visible

_NAMED = ("level", "invariant", "isolation", "store", "transaction", "name")


def is_printed(content: Any) -> bool:
    """Whether this is a document of ``--json``: of ``check``, ``explore`` or another verb."""
    return (
        isinstance(content, dict)
        and isinstance(content.get("results"), list)
        and all(isinstance(result, dict) and _verdict(result) is not None for result in content["results"])
    )


def verdicts_of(content: Mapping[str, Any]) -> list[Verdict]:
    """The verdict of every result."""
    return [verdict for result in content["results"] if (verdict := _verdict(result)) is not None]


def render_printed(content: Mapping[str, Any], paint: Paint = lambda text, _: text) -> str:
    """The document for a terminal."""
    return safe_lines(lambda safely: list(_lines(content, safely)), paint)


def _verdict(result: Mapping[str, Any]) -> Verdict | None:
    try:
        return Verdict(result.get("verdict"))
    except ValueError:
        return None


def _lines(content: Mapping[str, Any], paint: Paint) -> Iterator[str]:
    about = content.get("history") or content.get("subject") or {}
    facts = [f"{value} {name}" for name, value in about.items() if isinstance(value, int)]
    title = content.get("file") or (about.get("name") if isinstance(about, dict) else None) or "result"
    yield visible(f"{title}: {', '.join(facts)}")
    for result in content["results"]:
        verdict = _verdict(result)
        assert verdict is not None, "looked at before"
        named = " ".join(str(result[name]) for name in _NAMED if isinstance(result.get(name), str))
        question = result.get("question", "")
        yield f"  {visible(f'{question} {named}'.strip())}: {paint(WORDS[verdict], COLOURS[verdict])}"
        if result.get("reason"):
            yield from _wrapped(str(result["reason"]))
        for shown in [*result.get("anomalies", ()), *result.get("violations", ())]:
            yield from _shown(shown)


def _shown(shown: Mapping[str, Any]) -> Iterator[str]:
    yield from _wrapped(f"{shown.get('name') or shown.get('check')}: {shown.get('explanation', '')}")
    for edge in shown.get("cycle", ()):
        key = f" {edge['key']}" if edge.get("key") is not None else ""
        yield visible(f"      {edge.get('from')} → {edge.get('to')}  {edge.get('kind')}{key}")
    schedule = shown.get("schedule")
    steps: Sequence[Any] = schedule.get("steps", ()) if isinstance(schedule, dict) else schedule or ()
    for step in steps:
        yield visible("      " + "  ".join(map(str, step)))
    if shown.get("state") is not None:
        yield visible(f"      state: {json_text(shown['state'])}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(visible(text), WIDTH, initial_indent="    ", subsequent_indent="      ")
