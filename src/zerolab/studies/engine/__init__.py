"""What all studies share: planned work is done, kept and found again, on any number of workers."""
