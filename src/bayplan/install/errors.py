"""What goes wrong while an installation is put together."""


class InstallError(Exception):
    """It cannot be installed so; the text says what is wrong and what to do."""
