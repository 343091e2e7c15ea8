"""``python -m nws_sweep``, the same as ``nws-sweep``."""

from nws_sweep.cli import main

if __name__ == "__main__":
    main()
