"""The scheduler door: pods that name us as their scheduler, from the queue to their nodes."""
