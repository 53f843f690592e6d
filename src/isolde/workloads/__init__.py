"""What clients do: the workloads that ``isolde run`` can send, as a table."""

from isolde.workloads.catalogue import DISTRIBUTIONS, WORKLOADS, Settings, Workload, workload_named

__all__ = ["DISTRIBUTIONS", "WORKLOADS", "Settings", "Workload", "workload_named"]
