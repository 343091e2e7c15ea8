"""nws_sweep finds the best PyTorch DataLoader settings by measuring them.

Run ``python -m nws_sweep --help``, or read README.md.
"""

from __future__ import annotations

__version__ = "0.1.0"
