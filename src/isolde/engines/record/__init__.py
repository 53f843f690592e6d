"""Workloads on real databases: sessions that send transactions and write down what came back."""

from isolde.engines.record.run import Job, Outcome, Progress, Round, Run, Watcher, finish
from isolde.engines.record.session import Tally

__all__ = ["Job", "Outcome", "Progress", "Round", "Run", "Tally", "Watcher", "finish"]
