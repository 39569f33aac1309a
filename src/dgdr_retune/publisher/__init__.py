"""The container that projects a sweeper's snapshots into Candidates and the Run's status."""
