"""Complex numbers in a trace. The engine has real numbers only, and holds their two parts.

`refusal` says what does not take them, `parts` computes with the parts as the engine does, `whole`
with functions of NumPy and their derivatives, and `symbolic` says of Keras' symbolic tensors which
results are real. The rules of linear algebra, in `rules`, serve real and complex numbers.
"""
