"""A small typed face on Z3; the only package that imports it. Import it where a question is asked, not at the start."""
