"""The Kubernetes API as this project uses it: transport, cached watches, work queue, events, leader election."""
