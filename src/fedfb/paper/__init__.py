"""The paper itself: its tables and figures, ours beside the printed ones, and the released code.

Nothing in the core imports this package.
"""
