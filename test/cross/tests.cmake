# The tests that are built for other processors: kernels' values beside the interpreter's.
set(cross_tests backend/test_kernels backend/test_lanes_slow run/test_compiled run/test_scatter)
