"""What devices count, compared with what the simulated fabric shows, under the devices' own names."""
