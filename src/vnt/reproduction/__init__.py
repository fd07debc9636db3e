"""Every table and figure of the paper, from one command: `vnt reproduce`."""
