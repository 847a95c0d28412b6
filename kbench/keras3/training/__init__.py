"""What `fit` runs: `trainer`, whose steps are functions of the engine (`step`), and the base of
layers (`layer`) and of optimizers (`optimizer`).
"""
