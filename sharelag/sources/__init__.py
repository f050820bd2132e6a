"""The only code that touches a broker or a disk."""
