"""What is worked out of values for views: gradients, graphs, comparisons, searches."""
