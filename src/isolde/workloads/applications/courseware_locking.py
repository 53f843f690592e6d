"""Courseware as people run it at read committed: the student and the course are locked before it is decided about them.

Counts cannot be locked, so ``enroll`` and ``deregister`` lock the student, ``enroll`` and ``cancel_course`` the course, and count
after that: at read committed each statement sees what was committed before it. Students are locked before courses. Who finds
nothing to lock stops: a student who came only now would be counted and deleted without a lock.
"""

from __future__ import annotations

from isolde.tx.python import Handle, locking, transaction
from isolde.workloads.applications import APPLICATIONS, courseware


@transaction
def enroll(tx: Handle, student: int, course: int, enrollment: int) -> bool:
    """Whether there was such a student, such a course and a place in it, and he was not there yet."""
    known = tx.one("SELECT s_id FROM student WHERE s_id = :student FOR UPDATE", student=student)
    if known is None:
        return False
    seat = tx.one("SELECT c_capacity FROM course WHERE c_id = :course FOR UPDATE", course=course)
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
def deregister(tx: Handle, student: int) -> None:
    """A student who is enrolled nowhere goes."""
    known = tx.one("SELECT s_id FROM student WHERE s_id = :student FOR UPDATE", student=student)
    if known is None:
        return
    enrolled = tx.value("SELECT COUNT(*) FROM enrollment WHERE e_s_id = :student", student=student)
    if enrolled == 0:
        tx.execute("DELETE FROM student WHERE s_id = :student", student=student)


@transaction
def cancel_course(tx: Handle, course: int) -> None:
    """A course in which nobody is enrolled goes."""
    known = tx.one("SELECT c_id FROM course WHERE c_id = :course FOR UPDATE", course=course)
    if known is None:
        return
    enrolled = tx.value("SELECT COUNT(*) FROM enrollment WHERE e_c_id = :course", course=course)
    if enrolled == 0:
        tx.execute("DELETE FROM course WHERE c_id = :course", course=course)


_ENTRY = APPLICATIONS["courseware-locking"]
_TRANSACTIONS = {
    "enroll": enroll,
    "leave": locking(courseware.leave, "enrollment"),
    "deregister": deregister,
    "cancel_course": cancel_course,
}

APPLICATION = courseware.APPLICATION.variant(_ENTRY.name, _ENTRY.meaning, _ENTRY.source, _TRANSACTIONS)
