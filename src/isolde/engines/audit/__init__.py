"""Could a correct database have given these answers to these SQL transactions? One door: ``audit.py``."""
