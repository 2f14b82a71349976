"""From the answer to the switch."""


def parse_export(text):
    return None


def export_answer(*a):
    return None
