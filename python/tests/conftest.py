"""Before any test imports PyTorch, and for the processes that tests start."""

import os

# On some virtual machines oneDNN takes AMX for usable and dies of it; it reads this at its first product.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
