"""A script of TRL, Unsloth or transformers, run with recorders in the place of its trainer and its models (`hone doctor script.py --run`).

The script's own code, its data sets and its tokenizers are real. `train()` writes the options and the rows, and ends the script.
"""
