"""Imported last by the fork server, and only there: excludes the loaded modules from garbage collection.

A full collection over the objects of torch's modules takes tenths of a second at a random moment, which would distort a
search of a few seconds.
"""

import atexit
import gc

gc.collect()
gc.freeze()
atexit.register(gc.unfreeze)  # libraries report objects that are left when the server exits
