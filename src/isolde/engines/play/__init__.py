"""One given interleaving of SQL statements, played on a real database."""

from isolde.engines.play.history import history_of
from isolde.engines.play.player import Player, Recorded, Sent

__all__ = ["Player", "Recorded", "Sent", "history_of"]
