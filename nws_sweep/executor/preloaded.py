"""Imported last of all in the fork server, and nowhere else: what it has loaded is no garbage, and never will be.

A full garbage collection that goes through the objects of torch's modules takes tenths of a second, and comes at a
moment that has nothing to do with the loader: in a search of a few seconds it would decide.
"""

import atexit
import gc

gc.collect()
gc.freeze()
atexit.register(gc.unfreeze)  # at the server's own end everything is garbage, and libraries complain of what is left
