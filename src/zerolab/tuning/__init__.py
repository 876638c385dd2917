"""The search over settings: trials are runs, Optuna proposes what to try next.

``space`` says what is searched, ``settings`` what a whole search is, ``journal`` and ``store`` keep
its trials where several processes work on them, ``trial`` trains and measures one, ``search`` works
until all are done, ``report`` and ``figures`` show what was found.
"""
