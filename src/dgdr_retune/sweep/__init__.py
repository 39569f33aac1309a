"""Grid, shards, objective, comparison and decision."""
