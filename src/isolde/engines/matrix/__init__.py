"""Which anomalies a database allows at which of its levels, by schedules that do not depend on luck."""

from isolde.engines.matrix.play import Cell, Tried, in_words, play, play_all, play_cell
from isolde.engines.matrix.schedules import SCHEDULES, Played, Schedule

__all__ = ["SCHEDULES", "Cell", "Played", "Schedule", "Tried", "in_words", "play", "play_all", "play_cell"]
