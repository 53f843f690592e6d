"""Isolde finds out what a database's isolation level really gives, and what an application really needs."""
