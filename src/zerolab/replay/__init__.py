"""Training examples: compact storage and batches under symmetries."""
