"""What a run keeps on disk, and the checks that guard it."""
