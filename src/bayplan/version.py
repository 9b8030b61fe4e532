"""Which version this is, also for rooms that may not import `bayplan` itself: it knows those above them."""

VERSION = "0.1.0"
