"""Workloads on real databases: sessions that send transactions and write down what came back."""

from isolde.engines.record.client import Tally
from isolde.engines.record.durability import Lost, lost_writes
from isolde.engines.record.faults import Event, Fault, Nemesis
from isolde.engines.record.final import final_state
from isolde.engines.record.run import Job, Outcome, Progress, Round, Run, Watcher, finish, refuse_place
from isolde.engines.record.session import keyvalue_job
from isolde.engines.record.windows import Windows

__all__ = [
    "Event",
    "Fault",
    "Job",
    "Lost",
    "Nemesis",
    "Outcome",
    "Progress",
    "Round",
    "Run",
    "Tally",
    "Watcher",
    "Windows",
    "final_state",
    "finish",
    "keyvalue_job",
    "lost_writes",
    "refuse_place",
]
