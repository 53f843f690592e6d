"""Tables as statements see them: one small protocol (``TableView``), and its forms.

``memory`` holds the rows themselves; ``versions`` shows the state as of any commit, plus a transaction's own writes;
``recording`` notes which rows and predicates were touched.
"""
