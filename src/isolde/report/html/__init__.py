"""A report as one page of HTML: opened from a file, without a network, by people.

``page.page(report)`` is the door. Everything on the page is made from the report alone; the style
sheets and ``page.js`` are put into it.
"""
