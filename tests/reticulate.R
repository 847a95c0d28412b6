# kbench from R, through reticulate: arguments and values go both ways. Stops at what is wrong.
library(reticulate)
use_python(Sys.getenv("RETICULATE_PYTHON"), required = TRUE)
K <- import("kbench.backend")
same <- function(found, wanted) stopifnot(isTRUE(all.equal(found, wanted, tolerance = 1e-6)))

m <- matrix(c(1, 2, 3, 4, 5, 6), 2, 3)
same(K$get_value(K$variable(m)), m)
same(K$eval(K$constant(c(1, 2, 3))), array(c(1, 2, 3)))
same(c(K$eval(K$sum(K$constant(c(1, 2, 3))))), 6)
same(c(K$eval(K$constant(c(1L, 2L), dtype = "int32"))), c(1L, 2L))
same(c(K$eval(K$equal(K$constant(c(1, 2)), K$constant(c(1, 3))))), c(TRUE, FALSE))
cube <- array(as.numeric(1:24), c(2, 3, 4))
same(K$eval(K$permute_dimensions(K$variable(cube), c(2L, 0L, 1L))), aperm(cube, c(3, 1, 2)))
same(K$int_shape(K$zeros(c(2L, 3L))), list(2L, 3L))

x <- K$placeholder(shape = list(NULL, 3L), name = "x")
w <- K$variable(matrix(0.1, 3, 2), name = "w")
y <- K$softmax(K$dot(x, w))
f <- K$`function`(list(x), list(y, K$sum(x)))
found <- f(list(m))
same(found[[1]], matrix(0.5, 2, 2))
same(c(found[[2]]), 21)

target <- matrix(c(1, 1, 0, 0), 2, 2)
loss <- K$mean(K$categorical_crossentropy(K$constant(target), y))
slope <- K$gradients(loss, list(w))[[1]]
step <- K$`function`(list(x), list(loss), updates = list(K$update_sub(w, K$clip(slope, -0.1, 0.1))))
losses <- sapply(1:5, function(i) c(step(list(m))[[1]]))
stopifnot(all(diff(losses) < 0))
K$set_value(w, matrix(0, 3, 2))
same(K$get_value(w), matrix(0, 3, 2))

cell <- function(entry, states) {
  new <- K$tanh(entry)
  list(new, list(new))
}
run <- K$rnn(cell, K$constant(array(1, c(2, 3, 4))), list(K$zeros(c(2L, 4L))))
same(K$eval(run[[1]]), matrix(tanh(1), 2, 4))
same(c(K$eval(K$map_fn(function(row) K$sum(row), K$variable(m)))), rowSums(m))

words <- tryCatch(f(list(matrix(1, 2, 2))), error = function(e) conditionMessage(e))
stopifnot(grepl("placeholder 'x' is float32[?, 3]", words, fixed = TRUE))

# Large enough for a compiled kernel, which a process of its own makes, started from within R.
large <- K$placeholder(shape = list(NULL, 300L))
double <- K$`function`(list(large), list(K$clip(K$exp(large), 0, 2)))
same(double(list(matrix(0, 1000, 300)))[[1]], matrix(1, 1000, 300))
jobs <- import_builtins()$list(import("kbench.engine.jit.service")$service$stats()$failures)
stopifnot(length(jobs) == 0)
cat("all is well: R", as.character(getRversion()), "reticulate",
    as.character(packageVersion("reticulate")), "NumPy", import("numpy")$`__version__`, "\n")
