"""What ``import zerolab`` offers beyond its own parts: functions for notebooks and scripts."""
