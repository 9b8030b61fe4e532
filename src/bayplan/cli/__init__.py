"""The command line: one file a command. Heavy imports wait until a command runs."""
