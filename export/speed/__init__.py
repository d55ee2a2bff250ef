"""How long learning takes on this machine."""
