"""The container that evaluates a Run: reads its input, replays, writes snapshots."""
