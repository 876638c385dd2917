"""The Go Text Protocol: zerolab as an engine, and other engines as players."""
