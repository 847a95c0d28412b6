"""What is worked out of values for views: gradients, graphs, Keras models, searches."""
