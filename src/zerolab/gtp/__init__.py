"""The Go Text Protocol: zerolab as an engine, and outside engines as players."""
