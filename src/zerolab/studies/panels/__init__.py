"""Figures that several studies draw, one kind a file.

All of them tell two things apart: how far runs differ that have nothing but their seed changed, as
one dot per run or a band of one standard deviation, and how well each was measured, as thin bars.
"""
