"""Courseware (Nair et al. 2020): courses are opened, closed and deleted; students enroll while there is a place."""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.workloads.clients.tables import Keys, Table

COURSES, STUDENTS, CAPACITY = 2, 3, 2
COURSE, ENROLLMENT = Table("course"), Table("enrollment")


def open_course(tx: Keys, course: int) -> None:
    COURSE.insert(tx, course, "open")


def close_course(tx: Keys, course: int) -> None:
    COURSE.update(tx, course, "closed")


def delete_course(tx: Keys, course: int) -> None:
    COURSE.delete(tx, course)


def enroll(tx: Keys, student: int, course: int) -> None:
    """Only into an open course that has a place."""
    if COURSE.select(tx, course) != "open":
        tx.abort()
    enrolled = tx.read(ENROLLMENT.ids)
    if sum(entry[1] == course for entry in enrolled) >= CAPACITY:
        tx.abort()
    ENROLLMENT.insert(tx, (student, course), True)


def get_enrollments(tx: Keys, course: int) -> None:
    ENROLLMENT.select_where(tx, lambda entry: entry[1] == course)


def initial() -> dict[Any, Any]:
    return COURSE.initial(dict.fromkeys(range(COURSES), "open")) | ENROLLMENT.initial({})


def drawn(random: Random) -> tuple[Any, ...]:
    course, student = random.randrange(COURSES), random.randrange(STUDENTS)
    return random.choice(
        [
            (open_course, course),
            (close_course, course),
            (delete_course, course),
            (enroll, student, course),
            (get_enrollments, course),
        ]
    )
