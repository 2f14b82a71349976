"""Topologies, routes and headroom."""
