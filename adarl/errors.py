"""The one kind of error that a command turns into a sentence instead of a traceback."""


class UserError(ValueError):
    """Something that the user gave cannot be used; the message says what, where and how to mend it."""
