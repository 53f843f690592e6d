"""Courseware with ``enroll`` as figure 12 of ACIDifier prints it: it never asks whether there is such a student."""

from dataclasses import replace

from isolde.workloads.applications import courseware

APPLICATION = replace(
    courseware.APPLICATION,
    name="figure-12",
    parts=tuple(
        replace(part, transaction=courseware.enroll_as_printed) if part.name == "enroll" else part
        for part in courseware.APPLICATION.parts
    ),
)
