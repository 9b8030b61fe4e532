"""The doors: ways to put policies to work. They do not know each other."""
