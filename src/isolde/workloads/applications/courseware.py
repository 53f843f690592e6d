"""Courseware: students enroll in courses of limited capacity.

After Gotsman et al. (POPL 2016) in the form of ACIDifier (figure 12, section 7), with its two invariants and without
foreign keys, as there. As printed, ``enroll`` never looks at the students, so I1 breaks even if transactions run one
after the other: ``enroll`` here does look, and ``enroll_as_printed`` is what was printed. ``leave`` is added, or the
courses would soon be full and nothing would happen any more. The mix and the sizes are ours: the papers state none.
"""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Rows, Scale, must_hold
from isolde.workloads.applications import APPLICATIONS
from isolde.workloads.applications.drawing import fresh

DDL = """
CREATE TABLE student (
    s_id INTEGER PRIMARY KEY,
    s_name VARCHAR(40)
);
CREATE TABLE course (
    c_id INTEGER PRIMARY KEY,
    c_name VARCHAR(40),
    c_capacity INTEGER NOT NULL
);
CREATE TABLE enrollment (
    e_id BIGINT PRIMARY KEY,
    e_s_id INTEGER NOT NULL,
    e_c_id INTEGER NOT NULL
);
"""


@transaction
def enroll(tx: Handle, student: int, course: int, enrollment: int) -> bool:
    """Whether there was such a student, such a course and a place in it, and he was not there yet."""
    known = tx.value("SELECT COUNT(*) FROM student WHERE s_id = :student", student=student)
    if known == 0:
        return False
    seat = tx.one("SELECT c_capacity FROM course WHERE c_id = :course", course=course)
    if seat is None:
        return False
    already = tx.value(
        "SELECT COUNT(*) FROM enrollment WHERE e_s_id = :student AND e_c_id = :course",
        student=student,
        course=course,
    )
    if seat.c_capacity <= 0 or already > 0:
        return False
    tx.execute(
        "INSERT INTO enrollment (e_id, e_s_id, e_c_id) VALUES (:enrollment, :student, :course)",
        enrollment=enrollment,
        student=student,
        course=course,
    )
    tx.execute("UPDATE course SET c_capacity = c_capacity - 1 WHERE c_id = :course", course=course)
    return True


@transaction
def enroll_as_printed(tx: Handle, student: int, course: int, enrollment: int) -> bool:
    """Figure 12 of ACIDifier: never asks whether there is such a student. No part of the workload."""
    seat = tx.one("SELECT c_capacity FROM course WHERE c_id = :course", course=course)
    if seat is None:
        return False
    already = tx.value(
        "SELECT COUNT(*) FROM enrollment WHERE e_s_id = :student AND e_c_id = :course",
        student=student,
        course=course,
    )
    if seat.c_capacity <= 0 or already > 0:
        return False
    tx.execute(
        "INSERT INTO enrollment (e_id, e_s_id, e_c_id) VALUES (:enrollment, :student, :course)",
        enrollment=enrollment,
        student=student,
        course=course,
    )
    tx.execute("UPDATE course SET c_capacity = c_capacity - 1 WHERE c_id = :course", course=course)
    return True


@transaction
def leave(tx: Handle, student: int) -> None:
    """A student gives one of his places back."""
    found = tx.one("SELECT e_id, e_c_id FROM enrollment WHERE e_s_id = :student ORDER BY e_id LIMIT 1", student=student)
    if found is None:
        return
    tx.execute("DELETE FROM enrollment WHERE e_id = :enrollment", enrollment=found.e_id)
    tx.execute("UPDATE course SET c_capacity = c_capacity + 1 WHERE c_id = :course", course=found.e_c_id)


@transaction
def register(tx: Handle, student: int, name: str) -> None:
    """A new student. If the id is taken, the insert fails and the transaction with it."""
    tx.execute("INSERT INTO student (s_id, s_name) VALUES (:student, :name)", student=student, name=name)


@transaction
def deregister(tx: Handle, student: int) -> None:
    """A student who is enrolled nowhere goes."""
    enrolled = tx.value("SELECT COUNT(*) FROM enrollment WHERE e_s_id = :student", student=student)
    if enrolled == 0:
        tx.execute("DELETE FROM student WHERE s_id = :student", student=student)


@transaction
def add_course(tx: Handle, course: int, name: str, capacity: int) -> None:
    """A new course. If the id is taken, the insert fails and the transaction with it."""
    if capacity < 0:
        tx.abort("a capacity is not negative")
    tx.execute(
        "INSERT INTO course (c_id, c_name, c_capacity) VALUES (:course, :name, :capacity)",
        course=course,
        name=name,
        capacity=capacity,
    )


@transaction
def cancel_course(tx: Handle, course: int) -> None:
    """A course in which nobody is enrolled goes."""
    enrolled = tx.value("SELECT COUNT(*) FROM enrollment WHERE e_c_id = :course", course=course)
    if enrolled == 0:
        tx.execute("DELETE FROM course WHERE c_id = :course", course=course)


def _student(random: Random, scale: Scale) -> int:
    """Twice as many ids as there are students at first: some are free, and taken, and freed again."""
    return random.randint(1, 2 * scale["students"])


def _course(random: Random, scale: Scale) -> int:
    return random.randint(1, 2 * scale["courses"])


def _enroll(random: Random, scale: Scale) -> dict[str, Any]:
    return {"student": _student(random, scale), "course": _course(random, scale), "enrollment": fresh(random)}


def _register(random: Random, scale: Scale) -> dict[str, Any]:
    student = _student(random, scale)
    return {"student": student, "name": f"student {student}"}


def _one_student(random: Random, scale: Scale) -> dict[str, Any]:
    return {"student": _student(random, scale)}


def _add_course(random: Random, scale: Scale) -> dict[str, Any]:
    course = _course(random, scale)
    return {"course": course, "name": f"course {course}", "capacity": random.randint(1, scale["capacity"])}


def _cancel_course(random: Random, scale: Scale) -> dict[str, Any]:
    return {"course": _course(random, scale)}


def _populate(random: Random, scale: Scale) -> Rows:
    for student in range(1, scale["students"] + 1):
        yield "student", (student, f"student {student}")
    for course in range(1, scale["courses"] + 1):
        yield "course", (course, f"course {course}", random.randint(1, scale["capacity"]))


INVARIANTS = (
    must_hold(
        "I1-student",
        "SELECT e.e_id, e.e_s_id FROM enrollment e LEFT JOIN student s ON s.s_id = e.e_s_id WHERE s.s_id IS NULL",
        "every enrollment refers to an existing student",
    ),
    must_hold(
        "I1-course",
        "SELECT e.e_id, e.e_c_id FROM enrollment e LEFT JOIN course c ON c.c_id = e.e_c_id WHERE c.c_id IS NULL",
        "every enrollment refers to an existing course",
    ),
    must_hold("I2", "SELECT c_id, c_capacity FROM course WHERE c_capacity < 0", "no capacity is negative"),
)

_ENTRY = APPLICATIONS["courseware"]

APPLICATION = Application(
    _ENTRY.name,
    _ENTRY.meaning,
    _ENTRY.source,
    DDL,
    (
        Part(enroll, 40, _enroll),
        Part(leave, 15, _one_student),
        Part(register, 10, _register),
        Part(deregister, 10, _one_student),
        Part(add_course, 10, _add_course),
        Part(cancel_course, 15, _cancel_course),
    ),
    _populate,
    {"students": 100, "courses": 20, "capacity": 5},
    INVARIANTS,
)
