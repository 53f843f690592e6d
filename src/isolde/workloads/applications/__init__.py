"""The applications of the literature, one file each, as programs of the transaction language."""
