"""What is wrong with what the user gave."""


class ArgumentError(Exception):
    """A gin file, a data set or a checkpoint that cannot be used, with the reason."""
