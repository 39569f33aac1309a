"""Requests become Runs, Runs become Jobs, and the claim is held as long as a Job may read from it."""
