"""Passes over a graph before shapes are known, and the lowered values and lifetimes once they are.

May import `control_flow`, `ops` and what is below; `execute/plan.py` lists the passes. Main
entries: `simplify.simplify`, `values.lower_graph`, `liveness.assign_arena`.
"""
