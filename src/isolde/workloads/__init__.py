"""What clients do: the workloads that ``isolde run`` can send, as tables."""

from isolde.workloads.applications import APPLICATIONS, application_named
from isolde.workloads.catalogue import DISTRIBUTIONS, WORKLOADS, Settings, Skew, Workload, workload_named

__all__ = [
    "APPLICATIONS",
    "DISTRIBUTIONS",
    "WORKLOADS",
    "Settings",
    "Skew",
    "Workload",
    "application_named",
    "workload_named",
]
