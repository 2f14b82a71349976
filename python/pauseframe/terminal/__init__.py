"""What a person sees on a terminal: numbers, progress, errors."""
