"""Retune the KV routers of NVIDIA Dynamo deployments from recorded traffic."""

__version__ = "0.1.0"
