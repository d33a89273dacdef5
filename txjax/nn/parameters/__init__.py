"""How parameters are drawn, stored and recorded."""
