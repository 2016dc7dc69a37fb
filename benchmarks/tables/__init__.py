"""Published tables of runs, one module each: `rows()` fits them by the splits of their papers and says how well.

The tables are not shipped: each module names the public repository that it comes from, and finds its copy below the
folder in the environment variable MIXOPT_REFERENCE_DATA, verified by checksum.
"""
