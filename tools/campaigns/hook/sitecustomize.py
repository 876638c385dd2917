"""Lets every process of an attempt count its system calls; Python imports this by its name."""

from campaigns.inject import install_from_environment

install_from_environment()
