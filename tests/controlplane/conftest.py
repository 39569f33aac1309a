from tests.controlplane.fixture import control_plane, programs

__all__ = ["control_plane", "programs"]
