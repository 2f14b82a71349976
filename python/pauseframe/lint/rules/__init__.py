"""The lint rules, one file per subject. A rule's docstring is its page in docs/rules."""
