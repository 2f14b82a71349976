"""Files as every command writes and reads them."""
