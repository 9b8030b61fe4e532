"""The nouns of Kubernetes that scheduling needs, and nothing that moves."""
