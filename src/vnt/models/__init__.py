"""The two models of the paper, their configs and its recipes. Import names from `vnt`, or from the files here."""
