"""The systems that the VN-Transformer is compared with, with the same forward signatures."""
