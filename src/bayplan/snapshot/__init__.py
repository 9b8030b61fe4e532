"""A frozen view of the cluster: node tables, placed pods, and how they are built."""
