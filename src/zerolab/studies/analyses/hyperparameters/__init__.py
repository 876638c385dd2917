"""What the two studies of hyper-parameters [Wang2020a] make of their results."""
