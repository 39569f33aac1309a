"""Configuration and the retune loop."""
