"""Ascend's PyTorch scripts on any CPU: `import torch_npu`, the device `npu` and torch_npu's names for our operators.

    python -m gradus.torch_npu train.py ...        # or, as the first line of a script:
    import gradus.torch_npu.install
"""
