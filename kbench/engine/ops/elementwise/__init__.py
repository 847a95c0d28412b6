"""Operations element by element: operators, elementary functions, comparisons, activations."""
