"""The paper: its tables and figures, our numbers beside the printed ones, and the released code.

Nothing in the core imports this package.
"""
