"""Sizes of an application as people give them: ``accounts=10``, or the name of a set of sizes from the literature."""

from __future__ import annotations

import re
from collections.abc import Iterable

from isolde.errors import UsageError
from isolde.workloads.application import Application, Scale


def scale_of(application: Application, sizes: Iterable[str]) -> Scale:
    """The application's sizes, with those replaced that are given."""
    known = ", ".join([*(f"{key}={size}" for key, size in application.scale.items()), *application.sizes]) or "none"
    whole, given = application.scale, {}
    for text in sizes:
        if text in application.sizes:
            whole = application.sizes[text]
            continue
        name, _, number = text.partition("=")
        if name in given:
            raise UsageError(f"--scale {text}: {name} is given twice")
        if name not in application.scale or not re.fullmatch(r"0*[1-9][0-9]{0,11}", number, re.ASCII):
            raise UsageError(f"--scale {text} is no size of {application.name}; it has {known}")
        given[name] = int(number)
    return {**whole, **given}
