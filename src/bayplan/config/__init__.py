"""The file that users write: its schema, how it is read, and how it becomes policies."""
