"""The store against real databases: generated statements and procedures, results compared row by row."""
