"""Hook that Python imports at startup, so that every process of an attempt follows its plan."""

from campaigns.inject import install_from_environment

install_from_environment()
