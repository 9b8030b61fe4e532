"""What the people who run the server look at: metrics, health, certificates, logs."""
