"""The lattice of levels and the catalogue of anomalies: tables with a citation a row, no algorithms."""

from isolde.levels.anomalies import ANOMALIES, WIDEST, AnomalyRow, anomaly, rules_out
from isolde.levels.lattice import (
    ALSO_CALLED,
    IMPLICATIONS,
    LEVELS,
    Implication,
    Level,
    LevelRow,
    implies,
    level_named,
    row,
)

__all__ = [
    "ALSO_CALLED",
    "ANOMALIES",
    "IMPLICATIONS",
    "LEVELS",
    "WIDEST",
    "AnomalyRow",
    "Implication",
    "Level",
    "LevelRow",
    "anomaly",
    "implies",
    "level_named",
    "row",
    "rules_out",
]
