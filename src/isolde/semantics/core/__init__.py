"""The typed core: what a transaction means, with every name resolved, every type known and every dialect decision made."""
