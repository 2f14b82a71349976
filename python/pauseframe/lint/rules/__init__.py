"""The rules, a file for each subject. A rule's docstring is its page in docs/rules."""
