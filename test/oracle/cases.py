"""What NumPy says of each public function, and which functions have no counterpart there."""

import elementwise  # noqa: F401: fill the table
import tensorwise  # noqa: F401

OTHERWISE = {
    name: why
    for why, names in {
        "makes no values": """scope_begin scope_end scope_enter scope_leave keep retain release rank shape size numel
            dtype_of nbytes device_of ctx_of realize read write item print print_string to params_add params_get
            params_tensors file_tensor program_input program_result""",
        "of sizes: test/tensor": """dim_var dim_add dim_sub dim_mul dim_div dim_mod dim_min dim_max dim_is_symbolic
            dim_bounds""",
        "draws numbers: test/tensor/test_random.c": """manual_seed rng_get_state rng_set_state rand_bits uniform normal
            randint bernoulli kaiming_uniform kaiming_normal xavier_uniform xavier_normal dropout""",
        "a layer: test/nn": "linear conv2d max_pool2d avg_pool2d",
        "makes every operand": "from",
    }.items()
    for name in names.split()
}
