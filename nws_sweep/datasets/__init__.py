"""The datasets that come with nws_sweep, one file each. Any other ``_target_`` works in their place."""
