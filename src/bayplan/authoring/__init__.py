"""What policy authors import: hooks, verdicts, arguments; and how policies are found and loaded."""
